"""Feedback on code, and its settings: ConvCodeWorld's nine (section 2), and none at all."""

from enum import StrEnum

from schemas.base import Frozen


class ExecutionFeedback(StrEnum):
    """Tests whose output the subject is told: none, those of partial coverage, or all."""

    NONE = "none"
    PARTIAL = "f_e"
    FULL = "f_e*"


class VerbalFeedback(StrEnum):
    """Comment on the code: none, of a user without the reference code, of one with it, or the reference code itself."""

    NONE = "none"
    NOVICE = "f_v"
    EXPERT = "f_v*"
    GROUND_TRUTH = "ground_truth"
    """No user speaks: the reference code is shown (ConvCodeWorld Table 7)."""


class Feedback(Frozen):
    """Feedback on one piece of code, by kind. None where the setting, or its speaker, gives none of that kind."""

    compilation: str | None = None
    execution: str | None = None
    verbal: str | None = None


class FeedbackSetting(Frozen):
    """Omega = <f_c, [none | f_e | f_e*], [none | f_v | f_v*]>; without compilation feedback there is no other."""

    compilation: bool = True
    execution: ExecutionFeedback = ExecutionFeedback.NONE
    verbal: VerbalFeedback = VerbalFeedback.NONE

    @property
    def name(self) -> str:
        """The paper's notation, for example `f_c,f_e,f_v*`; `none` for no feedback."""
        if not self.compilation:
            return "none"
        parts = ["f_c", *(p.value for p in (self.execution, self.verbal) if p.value != "none")]
        return ",".join(parts)


NO_FEEDBACK = FeedbackSetting(compilation=False)
FEEDBACK_SETTINGS: tuple[FeedbackSetting, ...] = tuple(
    FeedbackSetting(execution=execution, verbal=verbal)
    for execution in ExecutionFeedback
    for verbal in VerbalFeedback
    if verbal is not VerbalFeedback.GROUND_TRUTH
)
GROUND_TRUTH = FeedbackSetting(verbal=VerbalFeedback.GROUND_TRUTH)
"""The upper bound of what verbal feedback can give; none of the paper's nine settings."""

"""Feedback on code and its settings: ConvCodeWorld's nine (section 2), and none at all."""

from enum import StrEnum

from schemas.base import Frozen


class ExecutionFeedback(StrEnum):
    """Tests whose output the subject sees: none, those of partial coverage, or all."""

    NONE = "none"
    PARTIAL = "f_e"
    FULL = "f_e*"


class VerbalFeedback(StrEnum):
    """Comment on the code.

    The kinds: none; by a user without the reference code; by a user with it; the reference code
    itself.
    """

    NONE = "none"
    NOVICE = "f_v"
    EXPERT = "f_v*"
    GROUND_TRUTH = "ground_truth"
    """The reference code is shown, without a user's comment (ConvCodeWorld Table 7)."""


class Feedback(Frozen):
    """Feedback on one piece of code, by kind.

    A field is None if the setting, or the feedback's author, gives none of that kind.
    """

    compilation: str | None = None
    execution: str | None = None
    verbal: str | None = None


class FeedbackSetting(Frozen):
    """Omega = <f_c, [none | f_e | f_e*], [none | f_v | f_v*]>.

    Without compilation feedback there is no other feedback.
    """

    compilation: bool = True
    execution: ExecutionFeedback = ExecutionFeedback.NONE
    verbal: VerbalFeedback = VerbalFeedback.NONE

    @property
    def name(self) -> str:
        """Name in the paper's notation, such as `f_c,f_e,f_v*`; `none` for no feedback."""
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
"""Upper bound of verbal feedback. It is not one of the paper's nine settings."""

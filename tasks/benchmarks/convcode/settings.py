"""Settings: live with nine kinds of feedback or none, and static for the kinds worth replaying."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from schemas.dialog import Dialog, HistoryPolicy
from schemas.episode import (
    FEEDBACK_SETTINGS,
    GROUND_TRUTH,
    NO_FEEDBACK,
    ExecutionFeedback,
    FeedbackSetting,
    VerbalFeedback,
)
from tasks.benchmarks.convcode.prompts import GROUND_TRUTH_PROMPTS, PROMPTS, prompt_names
from tasks.benchmarks.program_runs import extraction_option
from tasks.benchmarks.setting import Option, Setting

TURNS = "turns"
COVERAGE = "coverage"
MOST_TURNS = 10
MOST_TOKENS_SPOKEN = 2048
"""Maximum tokens of a simulated user's answer (appendix B)."""

LIVE: Mapping[str, FeedbackSetting] = MappingProxyType(
    {
        f"live[{feedback.name}]": feedback
        for feedback in (NO_FEEDBACK, *FEEDBACK_SETTINGS, GROUND_TRUTH)
    }
)
STATIC: Mapping[str, FeedbackSetting] = MappingProxyType(
    {
        f"static[{feedback.name}]": feedback
        for feedback in FEEDBACK_SETTINGS
        if feedback.verbal is not VerbalFeedback.NONE
        and (feedback.execution, feedback.verbal) != (ExecutionFeedback.NONE, VerbalFeedback.NOVICE)
    }
)
"""Kinds of feedback with a simulated user.

A novice who sees only the compiler is excluded, since such a novice never comments on code that
compiles (section 4.3).
"""

_TURNS = Option(
    name=TURNS,
    values=tuple(str(n) for n in range(1, MOST_TURNS + 1)),
    default=str(MOST_TURNS),
    affects="episode",
    always_in_id=True,
    help="rounds of feedback after the first answer",
)
_COVERAGE = Option(
    name=COVERAGE,
    values=("first_three_tests", "upstream_first_three_methods"),
    default="first_three_tests",
    affects="episode",
    always_in_id=True,
    help="tests whose failures are shown: the first three, or those among the first three"
    " methods (without module errors and time limits)",
    upstream=("upstream_first_three_methods",),
)
_EXECUTION_HELP = {
    ExecutionFeedback.NONE: "",
    ExecutionFeedback.PARTIAL: ", the first three tests",
    ExecutionFeedback.FULL: ", all tests",
}
_VERBAL_HELP = {
    VerbalFeedback.NONE: "",
    VerbalFeedback.NOVICE: ", comments of a novice",
    VerbalFeedback.EXPERT: ", comments of an expert",
    VerbalFeedback.GROUND_TRUTH: ", the reference code (Table 7)",
}


@cache
def settings() -> dict[str, Setting]:
    """Return all settings by name."""
    return {name: _live(name, feedback) for name, feedback in LIVE.items()} | {
        name: Setting(
            name=name,
            help=f"logged code of a reference model; {_description(feedback)} (section 3)",
            options=(extraction_option("scoring"),),
            history=HistoryPolicy.LAST_CODE_AND_FEEDBACK,
            prompts=PROMPTS,
        )
        for name, feedback in STATIC.items()
    }


def is_live(setting: str) -> bool:
    """Return True if the setting's feedback is about the model's own code."""
    return setting in LIVE


def feedback_turns(setting: str, options: Mapping[str, str]) -> int:
    """Return the maximum rounds of feedback, 0 without feedback and in static settings."""
    return int(options[TURNS]) if setting in LIVE and LIVE[setting].compilation else 0


def rounds(setting: str, options: Mapping[str, str]) -> int:
    """Return the number of rounds over which an episode is scored."""
    return 1 + feedback_turns(setting, options)


def plays(setting: str, dialog: Dialog) -> bool:
    """Return True if the dialog belongs to the setting. Live settings share their dialogs."""
    labels = dict(dialog.labels)
    if setting in LIVE:
        return labels.get("part") == "live"
    return labels.get("part") == "static" and labels.get("setting") == STATIC[setting].name


def _live(name: str, feedback: FeedbackSetting) -> Setting:
    options = (_TURNS,) if feedback.compilation else ()
    if feedback.execution is ExecutionFeedback.PARTIAL:
        options = (*options, _COVERAGE)
    options = (*options, extraction_option("episode" if feedback.compilation else "scoring"))
    return Setting(
        name=name,
        help=f"{_description(feedback)} (section 2)",
        options=options,
        needs_simulator=has_speaker(feedback),
        history=HistoryPolicy.LAST_CODE_AND_FEEDBACK,
        prompts=GROUND_TRUTH_PROMPTS if feedback == GROUND_TRUTH else PROMPTS,
        simulator_prompts=simulator_prompts(feedback),
        simulator_tokens=MOST_TOKENS_SPOKEN,
    )


def has_speaker(feedback: FeedbackSetting) -> bool:
    """Return True if a model plays a user who comments on the code."""
    return feedback.verbal in (VerbalFeedback.NOVICE, VerbalFeedback.EXPERT)


def simulator_prompts(feedback: FeedbackSetting) -> tuple[str, ...]:
    """Return the names of the simulated user's prompts in a round, or none without such a user."""
    if not has_speaker(feedback):
        return ()
    speaker = "novice" if feedback.verbal is VerbalFeedback.NOVICE else "expert"
    return prompt_names(speaker, feedback.execution is not ExecutionFeedback.NONE)


def _description(feedback: FeedbackSetting) -> str:
    if not feedback.compilation:
        return "one answer, no feedback"
    return f"compiler feedback{_EXECUTION_HELP[feedback.execution]}{_VERBAL_HELP[feedback.verbal]}"


@dataclass(frozen=True)
class Replay:
    """Logged turns of one task in one setting, read from a dialog's labels.

    A turn is not requested in two cases. After the reference model has solved the task, the turns
    of the model under test count as passed. If there was no feedback on the reference model's code,
    the failing result of that code is used.
    """

    n_turns: int
    """Number of turns in the logs, including turn 0."""
    requested_turns: frozenset[int]
    solved_at: int | None
    """First turn whose reference code passes. None if none does."""

    @staticmethod
    def of(dialog: Dialog) -> "Replay":
        """Return the turns from the labels of a static dialog."""
        labels = dict(dialog.labels)
        solved = labels.get("reference_solved_at")
        return Replay(
            n_turns=int(labels["last_iteration"]) + 1,
            requested_turns=frozenset(int(turn) for turn in labels["asked"].split(",")),
            solved_at=int(solved) if solved else None,
        )

    @staticmethod
    def iteration(dialog: Dialog) -> int:
        """Return the paper's turn number of a static dialog."""
        return int(dict(dialog.labels)["iteration"])

    @property
    def credited_from(self) -> int | None:
        """Return the first credited turn of this task, or None."""
        after = self.n_turns if self.solved_at is None else self.solved_at + 1
        return after if after < self.n_turns else None

    def turns_of(self, dialog: Dialog) -> tuple[int, ...]:
        """Return the turns scored on a dialog's episode.

        An episode scores its own turn. The episode of turn 0 also scores the turns without a
        request.
        """
        own = self.iteration(dialog)
        return tuple(
            t
            for t in range(self.n_turns)
            if t == own or (own == 0 and t not in self.requested_turns)
        )

"""Settings: static, dynamic and two-round conversation (CodeIF-Bench sections 3.1 and 5.3)."""

from collections.abc import Mapping

from schemas.dialog import HistoryPolicy
from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION
from tasks.benchmarks.program_runs import extraction_option
from tasks.benchmarks.setting import Option, Setting
from tasks.language.prompt import PromptTexts
from tasks.metrics.instruction_following import instruction_following_efficiency

PROMPTS = PromptTexts("tasks.benchmarks.codeif", ("base", "follow_up"))
REVIEW_PROMPTS = PromptTexts("tasks.benchmarks.codeif", ("base", "follow_up", "feedback"))
"""Prompts of a dynamic conversation, feedback included."""


STATIC, DYNAMIC, TWO_ROUND = "static", "dynamic", "two_round"
HISTORY, ANSWER_CLEANUP, UPSTREAM_V0 = "history", "answer_cleanup", "upstream_v0"
CONTEXT_TOKENS = "context_tokens"

_HISTORY = Option(
    name=HISTORY,
    values=("on_policy", UPSTREAM_V0),
    default="on_policy",
    affects="episode",
    always_in_id=True,
    help=(
        "history in the request: the model's own dialogue, or the messages of the published "
        "n_round runs (earlier prompts as one message)"
    ),
    upstream=(UPSTREAM_V0,),
)
_ANSWER_CLEANUP = Option(
    name=ANSWER_CLEANUP,
    values=("none", UPSTREAM_V0),
    default="none",
    affects="scoring",
    always_in_id=True,
    help="upstream_v0 deletes docstrings and blank lines from follow-up answers, as upstream did",
    upstream=(UPSTREAM_V0,),
)
_CONTEXT_TOKENS = Option(
    name=CONTEXT_TOKENS,
    values=("all", *(str(1024 * 2**n) for n in range(8))),
    default="all",
    affects="episode",
    help=(
        "maximum tokens of a repository task's golden contexts in the first message, at four "
        "characters each"
    ),
)
SETTINGS: Mapping[str, Setting] = {
    STATIC: Setting(
        name=STATIC,
        help="instructions in the dataset's order, without feedback (section 3.1)",
        options=(_HISTORY, _ANSWER_CLEANUP, _CONTEXT_TOKENS, extraction_option("scoring")),
        prompts=PROMPTS,
    ),
    DYNAMIC: Setting(
        name=DYNAMIC,
        help=(
            "tests select the next unmet instruction; a failed one gets one round of feedback "
            "(section 3.1)"
        ),
        options=(_CONTEXT_TOKENS, extraction_option("episode")),
        prompts=REVIEW_PROMPTS,
        metrics=(instruction_following_efficiency.name,),
    ),
    TWO_ROUND: Setting(
        name=TWO_ROUND,
        help="the base task, then a single instruction: accuracy by strategy (section 5.3)",
        options=(_CONTEXT_TOKENS, extraction_option("scoring")),
        history=HistoryPolicy.FIRST_ROUND,
        prompts=PROMPTS,
    ),
}


def reviewed_instructions(instruction_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the instructions of a dynamic conversation: all except Functionality Extension."""
    return tuple(name for name in instruction_ids if name != FUNCTIONALITY_EXTENSION)


def most_rounds(instruction_ids: tuple[str, ...]) -> int:
    """Return the maximum rounds of a dynamic conversation: 14 in L1, 18 in L2 and L3."""
    return 2 * len(reviewed_instructions(instruction_ids))

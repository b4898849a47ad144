"""The settings: static conversation, dynamic conversation, and the two-round design (CodeIF-Bench sections 3.1 and 5.3)."""

from collections.abc import Mapping

from schemas.dialog import HistoryPolicy
from tasks.benchmarks.codeif.prompt_texts import PROMPTS, REVIEW_PROMPTS
from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION
from tasks.benchmarks.extraction import extraction_option
from tasks.benchmarks.setting import Option, Setting
from tasks.metrics.instruction_following import instruction_following_efficiency

STATIC, DYNAMIC, TWO_ROUND = "static", "dynamic", "two_round"
HISTORY, ANSWER_CLEANUP, UPSTREAM_V0 = "history", "answer_cleanup", "upstream_v0"
CONTEXT_TOKENS = "context_tokens"

_HISTORY = Option(
    name=HISTORY,
    values=("on_policy", UPSTREAM_V0),
    default="on_policy",
    affects="episode",
    always_in_id=True,
    help="what the model sees of the past: its own dialogue, or what the published n_round runs sent",
    upstream=(UPSTREAM_V0,),
)
_ANSWER_CLEANUP = Option(
    name=ANSWER_CLEANUP,
    values=("none", UPSTREAM_V0),
    default="none",
    affects="scoring",
    always_in_id=True,
    help="upstream_v0 deletes docstrings and blank lines from follow-up answers, as the published verdicts were made",
    upstream=(UPSTREAM_V0,),
)
_CONTEXT_TOKENS = Option(
    name=CONTEXT_TOKENS,
    values=("all", *(str(1024 * 2**n) for n in range(8))),
    default="all",
    affects="episode",
    help="most tokens of a repository task's golden contexts in the first message, at four characters a token",
)
SETTINGS: Mapping[str, Setting] = {
    STATIC: Setting(
        name=STATIC,
        help="the instructions come in the dataset's order, without feedback (section 3.1)",
        options=(_HISTORY, _ANSWER_CLEANUP, _CONTEXT_TOKENS, extraction_option("scoring")),
        prompts=PROMPTS,
    ),
    DYNAMIC: Setting(
        name=DYNAMIC,
        help="tests choose the next instruction that is not met; one that fails gets one round of feedback (section 3.1)",
        options=(_CONTEXT_TOKENS, extraction_option("episode")),
        prompts=REVIEW_PROMPTS,
        metrics=(instruction_following_efficiency.name,),
    ),
    TWO_ROUND: Setting(
        name=TWO_ROUND,
        help="the base task, then one instruction, each instruction on its own: accuracy by strategy (section 5.3)",
        options=(_CONTEXT_TOKENS, extraction_option("scoring")),
        history=HistoryPolicy.FIRST_ROUND,
        prompts=PROMPTS,
    ),
}


def reviewed_instructions(instruction_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Instructions of a dynamic conversation, in the order in which they are given: all but Functionality Extension."""
    return tuple(name for name in instruction_ids if name != FUNCTIONALITY_EXTENSION)


def most_rounds(instruction_ids: tuple[str, ...]) -> int:
    """Rounds that a dynamic conversation has at most: 14 in L1, 18 in L2 and L3."""
    return 2 * len(reviewed_instructions(instruction_ids))

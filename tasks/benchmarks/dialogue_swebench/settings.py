"""The settings: the whole dialogue, and the paper's ablations. Rubrics judge those whose name says so."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from schemas.dialog import Dialog
from tasks.benchmarks.dialogue_swebench.issue_user import MOST_TOKENS
from tasks.benchmarks.setting import Options, Setting
from tasks.benchmarks.stratified import SAMPLE, draw_sample
from tasks.language.prompt import PromptTexts

FULL, FIRST_QUERY, NO_REVISION = "full", "first_query", "no_revision"
JUDGED = "_judged"
DIFFICULTY = "difficulty"
"""Label of a dialogue: what its data say of the time that the fix took."""
RUBRICS = ("information_seeking", "naturalness", "coherence", "user_turn")
USER_PROMPTS = ("user", "review", "revise")
PROMPTS = PromptTexts("tasks.benchmarks.dialogue_swebench", (*USER_PROMPTS, "unavailable"))


def _prompts(*names: str) -> Mapping[str, str]:
    return {name: PROMPTS[name] for name in names}


def _settings() -> Mapping[str, Setting]:
    found: dict[str, Setting] = {}
    for judged in (False, True):
        rubrics, end = (RUBRICS, JUDGED) if judged else ((), "")
        seen = ", judged" if judged else ""
        found[FULL + end] = Setting(
            name=FULL + end,
            help=f"an agent and a simulated user, whose replies are checked and revised{seen}",
            needs_simulator=True,
            simulator_tokens=MOST_TOKENS,
            simulator_heeds_subject=False,
            plays_known_answers_alone=True,
            prompts=_prompts(*USER_PROMPTS),
            simulator_prompts=("user", "review"),
            simulator_calls=2,
            rubrics=rubrics,
            options=(SAMPLE,),
        )
        found[NO_REVISION + end] = Setting(
            name=NO_REVISION + end,
            help=f"as full, without the check of the user's replies (section 8.2){seen}",
            needs_simulator=True,
            simulator_tokens=MOST_TOKENS,
            simulator_heeds_subject=False,
            plays_known_answers_alone=True,
            prompts=_prompts("user"),
            simulator_prompts=("user",),
            rubrics=rubrics,
            options=(SAMPLE,),
        )
    found[FIRST_QUERY] = Setting(
        name=FIRST_QUERY,
        help="the first message only: later ones are answered by the words that the user is not available (section 8.1)",
        prompts=_prompts("unavailable"),
        options=(SAMPLE,),
    )
    return found


SETTINGS: Mapping[str, Setting] = MappingProxyType(_settings())


def chosen(options: Options, dialogs: Sequence[Dialog]) -> Collection[str]:
    """The problems that a run asks: all, or a sample by their difficulty."""
    return draw_sample(
        options[SAMPLE.name],
        {dialog.problem_id: dict(dialog.labels)[DIFFICULTY] for dialog in dialogs},
    )


def revises(setting: str) -> bool:
    """Whether the user's replies are checked and revised."""
    return setting.removesuffix(JUDGED) == FULL

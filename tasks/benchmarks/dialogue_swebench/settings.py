"""Settings: the complete dialogue, and the paper's ablations.

Judges rate the dialogues of settings whose names end in `_judged`.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from schemas.dialog import Dialog
from tasks.benchmarks.dialogue_swebench.issue_user import MOST_TOKENS
from tasks.benchmarks.setting import Options, Setting
from tasks.benchmarks.staging import SAMPLE, draw_sample
from tasks.language.prompt import PromptTexts

FULL, FIRST_QUERY, NO_REVISION = "full", "first_query", "no_revision"
JUDGED = "_judged"
DIFFICULTY = "difficulty"
"""Label of a dialogue: time that the fix took, as the data states it."""
RUBRICS = ("information_seeking", "naturalness", "coherence", "user_turn")
USER_PROMPTS = ("user", "review", "revise")
PROMPTS = PromptTexts("tasks.benchmarks.dialogue_swebench", (*USER_PROMPTS, "unavailable"))


def _prompts(*names: str) -> Mapping[str, str]:
    return {name: PROMPTS[name] for name in names}


def _settings() -> Mapping[str, Setting]:
    settings: dict[str, Setting] = {}
    for judged in (False, True):
        rubrics, end = (RUBRICS, JUDGED) if judged else ((), "")
        suffix = ", judged" if judged else ""
        settings[FULL + end] = Setting(
            name=FULL + end,
            help=f"an agent and a simulated user, whose replies are checked and revised{suffix}",
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
        settings[NO_REVISION + end] = Setting(
            name=NO_REVISION + end,
            help=f"like full, without the check of the user's replies (section 8.2){suffix}",
            needs_simulator=True,
            simulator_tokens=MOST_TOKENS,
            simulator_heeds_subject=False,
            plays_known_answers_alone=True,
            prompts=_prompts("user"),
            simulator_prompts=("user",),
            rubrics=rubrics,
            options=(SAMPLE,),
        )
    settings[FIRST_QUERY] = Setting(
        name=FIRST_QUERY,
        help="the user sends only the first message, and is unavailable for questions"
        " (section 8.1)",
        prompts=_prompts("unavailable"),
        options=(SAMPLE,),
    )
    return settings


SETTINGS: Mapping[str, Setting] = MappingProxyType(_settings())


def choose_problems(options: Options, dialogs: Sequence[Dialog]) -> Collection[str]:
    """Return the problems of a run: all, or a sample stratified by difficulty."""
    return draw_sample(
        options[SAMPLE.name],
        {dialog.problem_id: dict(dialog.labels)[DIFFICULTY] for dialog in dialogs},
    )


def revises(setting: str) -> bool:
    """Return True if the user's replies are checked and revised."""
    return setting.removesuffix(JUDGED) == FULL

"""Settings: the complete dialogue, and the paper's ablations.

Judges rate the dialogues of settings whose names end in `_judged`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from schemas.content_id import content_id
from schemas.dialog import Dialog
from tasks.benchmarks.setting import Option, Options, Setting
from tasks.language.prompt import PromptTexts

FULL, FIRST_QUERY, NO_REVISION = "full", "first_query", "no_revision"
JUDGED = "_judged"
DIFFICULTY, PERSONA_TEXT = "difficulty", "persona_text"
"""Labels of a dialogue: time that the fix took, as the data states it; the user's persona."""
RUBRICS = ("information_seeking", "naturalness", "coherence", "user_turn")
USER_PROMPTS = ("user", "review", "revise")
PROMPTS = PromptTexts("tasks.benchmarks.dialogue_swebench", (*USER_PROMPTS, "unavailable"))
MOST_TOKENS, MOST_REVIEW_TOKENS = 600, 1200
"""Token limits of a reply and of its check. They do not depend on the subject's limit."""


ALL = "all"
_FORM = re.compile(r"stratified:(?P<n>[1-9]\d{0,6})(:(?P<seed>\d{1,9}))?")

SAMPLE = Option(
    name="sample",
    values=(ALL,),
    default=ALL,
    affects="scoring",
    help="only N problems, proportionally from each stratum, drawn with SEED (default 0)",
    pattern=_FORM.pattern,
    pattern_shown="stratified:N[:SEED]",
)
"""Option of a run. It is part of the run's id but not of episode ids, so samples share episodes."""


def draw_sample(sample: str, strata: Mapping[str, str]) -> frozenset[str]:
    """Return a sample of the problems in proportion to their strata, by largest remainders.

    If there are no more problems than the sample size, return all.

    Args:
        sample: Value of `SAMPLE`.
        strata: Stratum of each problem.
    """
    match = _FORM.fullmatch(sample)
    if match is None or int(match["n"]) >= len(strata):
        return frozenset(strata)
    n, seed = int(match["n"]), int(match["seed"] or 0)
    by_stratum: dict[str, list[str]] = {}
    for name in _in_order(strata, seed):
        by_stratum.setdefault(strata[name], []).append(name)
    quotas = {stratum: n * len(names) // len(strata) for stratum, names in by_stratum.items()}
    remainders = sorted(by_stratum, key=lambda s: (-(n * len(by_stratum[s]) % len(strata)), s))
    for stratum in remainders[: n - sum(quotas.values())]:
        quotas[stratum] += 1
    return frozenset(
        name for stratum, names in by_stratum.items() for name in names[: quotas[stratum]]
    )


def _in_order(names: Iterable[str], seed: int) -> list[str]:
    return sorted(names, key=lambda name: content_id(["stratified", seed, name]))


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
        settings[NO_REVISION + end] = replace(
            settings[FULL + end],
            name=NO_REVISION + end,
            help=f"like full, without the check of the user's replies (section 8.2){suffix}",
            prompts=_prompts("user"),
            simulator_prompts=("user",),
            simulator_calls=1,
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

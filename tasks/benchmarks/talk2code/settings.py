"""Settings of the benchmark: the two tracks, and the unchanged golden dialogues."""

from schemas.dialog import HistoryPolicy
from tasks.benchmarks.program_runs import extraction_option
from tasks.benchmarks.setting import Setting
from tasks.benchmarks.talk2code.measures import ENTITIES, EXPERIENCE, USER_LEVEL
from tasks.benchmarks.talk2code.options import (
    ENTITY_READINGS,
    ENTITY_SOURCE_OPTIONS,
    LEVEL_OPTIONS,
    SEMANTIC_READINGS,
    TURN_OPTIONS,
)
from tasks.language.prompt import PromptTexts

DIRECT, DIRECT_JUDGED, GOLDEN = "direct", "direct_judged", "golden"
INTERACTIVE, INTERACTIVE_JUDGED, INTERACTIVE_MEASURED = (
    "interactive",
    "interactive_judged",
    "interactive_measured",
)
GOLDEN_MEASURED = "golden_measured"
PROMPTS = PromptTexts("tasks.benchmarks.talk2code", ("direct",))
SIMULATOR_PROMPTS = ("simulator",)
INTERACTIVE_PROMPTS = PromptTexts(
    "tasks.benchmarks.talk2code", ("interactive", *SIMULATOR_PROMPTS, "simulator_again", "declined")
)
MOST_REPLY_TOKENS = 512
"""Maximum tokens of a simulated user's reply, which has one to three sentences."""
INTERACTIVE_METRICS = ("reference_disclosure",)
"""Scores that only the interactive settings have."""
_SCORING_OPTIONS, _EPISODE_OPTIONS = (
    (extraction_option("scoring"),),
    (extraction_option("episode"),),
)
BY_TURN = ("entity_match_density", "semantic_probability")
"""Scores of each reply, in settings that measure entities and meaning."""
SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            name=DIRECT,
            help="code after a golden dialogue without its final code (Direct Generation Track)",
            options=_SCORING_OPTIONS,
            history=HistoryPolicy.REFERENCE,
            prompts=PROMPTS,
        ),
        Setting(
            name=DIRECT_JUDGED,
            help="direct, and judges rate each dialogue with the model's answer",
            options=_SCORING_OPTIONS,
            history=HistoryPolicy.REFERENCE,
            prompts=PROMPTS,
            rubrics=(EXPERIENCE.name,),
        ),
        Setting(
            name=INTERACTIVE,
            help=(
                "dialogue with a simulated user; the model decides when it delivers (Interactive "
                "Dialogue Track)"
            ),
            options=(*TURN_OPTIONS, *_EPISODE_OPTIONS),
            needs_simulator=True,
            metrics=INTERACTIVE_METRICS,
            prompts=INTERACTIVE_PROMPTS,
            simulator_prompts=SIMULATOR_PROMPTS,
            simulator_tokens=MOST_REPLY_TOKENS,
        ),
        Setting(
            name=INTERACTIVE_JUDGED,
            help=(
                "interactive, and judges rate the dialogue, list its entities (for entity "
                "consistency EC and entity satisfaction ES) and guess the user's level"
            ),
            options=(*TURN_OPTIONS, *_EPISODE_OPTIONS, *LEVEL_OPTIONS, *ENTITY_READINGS),
            needs_simulator=True,
            metrics=(*INTERACTIVE_METRICS, *BY_TURN[:1]),
            prompts=INTERACTIVE_PROMPTS,
            simulator_prompts=SIMULATOR_PROMPTS,
            simulator_tokens=MOST_REPLY_TOKENS,
            rubrics=(EXPERIENCE.name, ENTITIES.name, USER_LEVEL.name),
        ),
        Setting(
            name=INTERACTIVE_MEASURED,
            help="interactive_judged, and vectors of the replies give semantic consistency (SC) and"
            " semantic satisfaction (SS)",
            options=(
                *TURN_OPTIONS,
                *_EPISODE_OPTIONS,
                *LEVEL_OPTIONS,
                *ENTITY_READINGS,
                *SEMANTIC_READINGS,
            ),
            needs_simulator=True,
            metrics=(*INTERACTIVE_METRICS, *BY_TURN),
            prompts=INTERACTIVE_PROMPTS,
            simulator_prompts=SIMULATOR_PROMPTS,
            simulator_tokens=MOST_REPLY_TOKENS,
            rubrics=(EXPERIENCE.name, ENTITIES.name, USER_LEVEL.name),
            needs_embedder=True,
        ),
        Setting(
            name=GOLDEN,
            help=(
                "judges rate the unchanged golden dialogues (reference row of Table 1); no model "
                "writes code"
            ),
            rubrics=(EXPERIENCE.name,),
            runs_programs=False,
        ),
        Setting(
            name=GOLDEN_MEASURED,
            help="golden with consistency and satisfaction of entities (EC, ES; from a person's"
            " notes or a judge) and of meaning (SC, SS)",
            options=(*ENTITY_READINGS, *SEMANTIC_READINGS, *ENTITY_SOURCE_OPTIONS),
            rubrics=(EXPERIENCE.name, ENTITIES.name),
            needs_embedder=True,
            metrics=BY_TURN,
            runs_programs=False,
        ),
    )
}


def is_interactive(setting: str) -> bool:
    """Return True if the setting has a simulated user."""
    return SETTINGS[setting].needs_simulator

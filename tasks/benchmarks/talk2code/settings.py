"""The benchmark's settings: the two tracks, and the golden dialogues as they stand."""

from schemas.dialog import HistoryPolicy
from tasks.benchmarks.extraction import extraction_option
from tasks.benchmarks.setting import Setting
from tasks.benchmarks.talk2code.measures.rubrics import ENTITIES, EXPERIENCE, USER_LEVEL
from tasks.benchmarks.talk2code.options import (
    ENTITY_READINGS,
    NOTED,
    PLAYED,
    SAMPLED,
    SEMANTIC_READINGS,
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
PLAYED_PROMPTS = PromptTexts(
    "tasks.benchmarks.talk2code", ("interactive", *SIMULATOR_PROMPTS, "simulator_again", "declined")
)
MOST_TOKENS_SPOKEN = 512
"""Bound of a simulated user's reply, which has one to three sentences."""
INTERACTIVE_METRICS = ("reference_disclosure",)
"""Scores of the interactive settings alone."""
_SCORED, _PLAYED = (extraction_option("scoring"),), (extraction_option("episode"),)
BY_TURN = ("entity_match_density", "semantic_probability")
"""Scores of each reply, of the settings that measure entities and meaning."""
SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            name=DIRECT,
            help="code from a golden dialogue without its final code (Direct Generation Track)",
            options=_SCORED,
            history=HistoryPolicy.REFERENCE,
            prompts=PROMPTS,
        ),
        Setting(
            name=DIRECT_JUDGED,
            help="the same, and judges rate each dialogue as it ended",
            options=_SCORED,
            history=HistoryPolicy.REFERENCE,
            prompts=PROMPTS,
            rubrics=(EXPERIENCE.name,),
        ),
        Setting(
            name=INTERACTIVE,
            help="a simulated user with a persona talks with the model, which says when it delivers (Interactive Dialogue Track)",
            options=(*PLAYED, *_PLAYED),
            needs_simulator=True,
            metrics=INTERACTIVE_METRICS,
            prompts=PLAYED_PROMPTS,
            simulator_prompts=SIMULATOR_PROMPTS,
            simulator_tokens=MOST_TOKENS_SPOKEN,
        ),
        Setting(
            name=INTERACTIVE_JUDGED,
            help="the same, and judges rate the dialogue, list entities for EC and ES, and guess the simulated user's level",
            options=(*PLAYED, *_PLAYED, *SAMPLED, *ENTITY_READINGS),
            needs_simulator=True,
            metrics=(*INTERACTIVE_METRICS, *BY_TURN[:1]),
            prompts=PLAYED_PROMPTS,
            simulator_prompts=SIMULATOR_PROMPTS,
            simulator_tokens=MOST_TOKENS_SPOKEN,
            rubrics=(EXPERIENCE.name, ENTITIES.name, USER_LEVEL.name),
        ),
        Setting(
            name=INTERACTIVE_MEASURED,
            help="the same, and vectors of the replies give SC and SS",
            options=(*PLAYED, *_PLAYED, *SAMPLED, *ENTITY_READINGS, *SEMANTIC_READINGS),
            needs_simulator=True,
            metrics=(*INTERACTIVE_METRICS, *BY_TURN),
            prompts=PLAYED_PROMPTS,
            simulator_prompts=SIMULATOR_PROMPTS,
            simulator_tokens=MOST_TOKENS_SPOKEN,
            rubrics=(EXPERIENCE.name, ENTITIES.name, USER_LEVEL.name),
            needs_embedder=True,
        ),
        Setting(
            name=GOLDEN,
            help="the golden dialogues as they stand, rated by judges: the table's reference row. No model is asked for code",
            rubrics=(EXPERIENCE.name,),
            runs_programs=False,
        ),
        Setting(
            name=GOLDEN_MEASURED,
            help="the same with EC, ES, SC and SS; entities as a person noted them, or a judge's",
            options=(*ENTITY_READINGS, *SEMANTIC_READINGS, *NOTED),
            rubrics=(EXPERIENCE.name, ENTITIES.name),
            needs_embedder=True,
            metrics=BY_TURN,
            runs_programs=False,
        ),
    )
}


def is_interactive(setting: str) -> bool:
    """Whether a simulated user speaks in it."""
    return SETTINGS[setting].needs_simulator

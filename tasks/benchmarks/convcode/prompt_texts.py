"""Prompts of the benchmark by name."""

from tasks.language.prompt import PromptTexts

PROMPT_NAMES = (
    "initial",
    "refine",
    "novice",
    "novice_case",
    "novice_example_compilation",
    "novice_example_execution",
    "expert",
    "expert_case",
    "expert_example_compilation",
    "expert_example_execution",
    "fields",
    "reminder",
)
PROMPTS = PromptTexts("tasks.benchmarks.convcode", PROMPT_NAMES)
GROUND_TRUTH_PROMPTS = PromptTexts("tasks.benchmarks.convcode", (*PROMPT_NAMES, "ground_truth"))
"""Prompts of the setting that shows the reference code.

Ids of other settings do not cover its text.
"""

"""The prompts that users speak by."""

from tasks.language.prompt import PromptTexts

PROMPTS = PromptTexts("tasks.benchmarks.codeif", ("base", "follow_up"))
REVIEW_PROMPTS = PromptTexts("tasks.benchmarks.codeif", ("base", "follow_up", "feedback"))
"""With the feedback of a dynamic conversation."""

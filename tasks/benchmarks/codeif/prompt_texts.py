"""Prompts of the user's messages."""

from tasks.language.prompt import PromptTexts

PROMPTS = PromptTexts("tasks.benchmarks.codeif", ("base", "follow_up"))
REVIEW_PROMPTS = PromptTexts("tasks.benchmarks.codeif", ("base", "follow_up", "feedback"))
"""Prompts of a dynamic conversation, feedback included."""

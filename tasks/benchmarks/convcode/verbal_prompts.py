"""Prompts of simulated users. A novice never learns the reference code; novice and expert see the shown tests only."""

from typing import Literal

from schemas.feedback import Feedback
from tasks.benchmarks.convcode.feedback_texts import feedback_parts
from tasks.benchmarks.convcode.prompt_texts import PROMPTS
from tasks.dialogue.simulated_feedback import FeedbackPrompt
from tasks.language.prompt import fill

Speaker = Literal["novice", "expert"]


def novice_prompt(problem_prompt: str, code: str, seen: Feedback) -> FeedbackPrompt:
    """The prompt of a user who sees the problem, the code and the feedback that is shown."""
    return _prompt("novice", seen, fill(PROMPTS["novice_case"], problem=problem_prompt, **_shown(code, seen)))


def expert_prompt(problem_prompt: str, reference: str, code: str, seen: Feedback) -> FeedbackPrompt:
    """The prompt of a user who also has the reference code."""
    right = reference.strip("\n")
    return _prompt("expert", seen, fill(PROMPTS["expert_case"], problem=problem_prompt, reference=right, **_shown(code, seen)))


def prompt_names(speaker: Speaker, shows_execution: bool) -> tuple[str, ...]:
    """Names of the prompts that a request to the simulator is made of."""
    return speaker, _example(speaker, shows_execution), "fields", f"{speaker}_case"


def _prompt(speaker: Speaker, seen: Feedback, case: str) -> FeedbackPrompt:
    example = PROMPTS[_example(speaker, seen.execution is not None)]
    example_case, _, answer = example.partition("\n\nReasoning: ")
    reasoning, _, feedback = answer.partition("\nFeedback: ")
    return FeedbackPrompt(
        example=f"{PROMPTS[speaker]}\n\n{example_case}\n\n{PROMPTS['fields']}",
        example_reasoning=reasoning,
        example_feedback=feedback,
        case=f"{case}\n\n{PROMPTS['fields']}",
        reminder=PROMPTS["reminder"],
    )


def _example(speaker: Speaker, shows_execution: bool) -> str:
    """Name of the example with the same kinds of visible feedback."""
    return f"{speaker}_example_{'execution' if shows_execution else 'compilation'}"


def _shown(code: str, seen: Feedback) -> dict[str, str]:
    return {"code": code.rstrip("\n"), "feedback": feedback_parts(seen)}

"""Prompts of simulated users, who see only the tests that are shown.

A novice never sees the reference code.
"""

import re
from typing import Literal

from schemas.feedback import Feedback
from tasks.benchmarks.convcode.feedback_texts import feedback_parts
from tasks.benchmarks.convcode.prompt_texts import PROMPTS
from tasks.dialogue.simulated_feedback import FeedbackPrompt
from tasks.language.prompt import fill
from tasks.language.quotation import backticks_for, quote_text

Speaker = Literal["novice", "expert"]
_FENCE = "```python\n{code}\n```"
_HEADING = re.compile(
    r"^\W*(?:problem|program|solution known to be right"
    r"|(?:compilation |execution |user )?feedback|reasoning)\W*:",
    re.IGNORECASE | re.MULTILINE,
)
"""Line that resembles a heading of the prompt."""


def novice_prompt(problem_prompt: str, code: str, visible: Feedback) -> FeedbackPrompt:
    """Return the prompt of a user who sees the problem, the code and the shown feedback."""
    return _prompt("novice", visible, _case("novice", code, visible, problem=problem_prompt))


def expert_prompt(
    problem_prompt: str, reference: str, code: str, visible: Feedback
) -> FeedbackPrompt:
    """Return the prompt of a user who also sees the reference code."""
    right = reference.strip("\n")
    return _prompt(
        "expert", visible, _case("expert", code, visible, problem=problem_prompt, reference=right)
    )


def prompt_names(speaker: Speaker, shows_execution: bool) -> tuple[str, ...]:
    """Return the names of the prompts in a request to the simulator."""
    return speaker, _example(speaker, shows_execution), "fields", f"{speaker}_case"


def _prompt(speaker: Speaker, visible: Feedback, case: str) -> FeedbackPrompt:
    example = PROMPTS[_example(speaker, visible.execution is not None)]
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
    """Return the name of the example with the same kinds of visible feedback."""
    return f"{speaker}_example_{'execution' if shows_execution else 'compilation'}"


def _case(speaker: Speaker, code: str, visible: Feedback, **values: str) -> str:
    """Return the text that the user sees, in which code and output cannot imitate another part.

    The code is in a fence longer than any of its own. Output with a line that resembles a heading
    is quoted.
    """
    fence, parts = backticks_for(code), visible.model_dump()
    if any(_HEADING.search(text) for text in parts.values() if text is not None):
        parts = {name: None if text is None else quote_text(text) for name, text in parts.items()}
    prompt = PROMPTS[f"{speaker}_case"].replace(_FENCE, _FENCE.replace("```", fence))
    return fill(
        prompt, **values, code=code.rstrip("\n"), feedback=feedback_parts(Feedback(**parts))
    )

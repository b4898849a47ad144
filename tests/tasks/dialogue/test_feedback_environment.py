"""A user who gives feedback: when there is something to say, what it is made of, and when the
dialogue ends.
"""

import asyncio

import pytest

from schemas.dialog import Role
from schemas.episode import Feedback, Step, StopReason
from schemas.run import Sampling
from schemas.verdict import ProgramVerdict
from tasks.dialogue.engine import Stop, Transcript
from tasks.dialogue.simulated_feedback import (
    FeedbackEnvironment,
    FeedbackPrompt,
    Observation,
    SimulatedFeedback,
)
from tests.tasks.dialogue.feedback_participants import (
    Lines,
    answer,
    paid,
    report_of,
    transcript,
    user,
)


def observe(report: ProgramVerdict) -> Observation:
    return Observation(
        Feedback(compilation=report.compile_error or "fine"), report.compile_error is not None
    )


def speak(
    where: Transcript, model: Lines | None = None, expert: bool = False, turns: int = 2
) -> Step | Stop:
    speaker = (
        SimulatedFeedback(
            model, Sampling(), lambda code, seen: FeedbackPrompt("", "", "", code, "")
        )
        if model
        else None
    )
    environment = FeedbackEnvironment(
        opening="task",
        turns=turns,
        code_of=lambda text: text.removeprefix("code: "),
        observe=observe,
        compose=lambda code, feedback: f"{code}|{feedback.compilation}|{feedback.verbal}",
        speaker=speaker,
        speaks_without_error=expert,
    )
    return asyncio.run(environment.speak(where))


def after(*answers: str) -> Transcript:
    steps = [
        step
        for turn, text in enumerate(answers, 1)
        for step in (user(turn), answer(turn, text, report_of(text)))
    ]
    return transcript(*steps)


def test_it_opens_with_the_problem() -> None:
    assert speak(transcript()) == Step(turn=1, role=Role.USER, content="task")


def test_an_error_is_told_with_the_code_it_is_about() -> None:
    error = "error in code: broken\n"
    expected = Step(
        turn=2, role=Role.USER, content=f"broken|{error}|None", feedback=Feedback(compilation=error)
    )
    assert speak(after("code: broken")) == expected


def test_code_that_passes_finishes_the_dialogue_even_for_an_expert() -> None:
    model = Lines([paid("Feedback: more")])
    assert speak(after("broken", "right"), model, expert=True) == Stop(StopReason.FINISHED)
    assert model.asked == []


@pytest.mark.parametrize("model", [None, Lines([])])
def test_where_no_error_is_shown_nothing_is_said(model: Lines | None) -> None:
    assert speak(after("wrong"), model) == Stop(StopReason.FINISHED)


def test_an_expert_speaks_where_no_error_is_shown_and_their_words_and_costs_are_kept() -> None:
    step = speak(
        after("code: wrong"), Lines([paid("Reasoning: r\nFeedback: mend it")]), expert=True
    )
    assert step == Step(
        turn=2,
        role=Role.USER,
        content="wrong|fine|mend it",
        feedback=Feedback(compilation="fine", verbal="mend it"),
        input_tokens=10,
        output_tokens=3,
        latency_s=0.5,
        n_calls=1,
        finish_reason="stop",
        served_model="served",
    )


@pytest.mark.parametrize(("turns", "said"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_there_are_so_many_rounds_of_feedback_and_no_more(turns: int, said: int) -> None:
    spoken = [speak(after(*["broken"] * n), turns=turns) for n in range(1, 5)]
    assert [isinstance(one, Step) for one in spoken] == [n < said for n in range(4)]
    assert spoken[-1] == Stop(StopReason.FINISHED)


def test_feedback_on_an_answer_that_was_not_run_is_refused() -> None:
    with pytest.raises(ValueError, match="round 1 of d/1 was not run"):
        speak(transcript(user(1), answer(1, "x", None)))

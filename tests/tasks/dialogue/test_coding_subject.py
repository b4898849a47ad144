"""Programs are run before they are said, and those that do not compile are asked for again within
the round.
"""

import asyncio

import pytest

from schemas.dialog import HistoryPolicy
from schemas.episode import Step, StopReason
from schemas.errors import ModelUnavailable
from schemas.run import Sampling
from tasks.dialogue.chat_subject import ChatSubject
from tasks.dialogue.engine import Stop, Transcript
from tasks.dialogue.reviewed_subject import CodingSubject
from tasks.language.chat_model import Completion
from tests.tasks.dialogue.feedback_participants import (
    SUITE,
    Lines,
    Reports,
    answer,
    paid,
    report_of,
    transcript,
    user,
)

FIRST = transcript(user(1, "task"))
SECOND = transcript(
    user(1, "task"), answer(1, "broken 1", report_of("broken 1")), user(2, "feedback on broken 1")
)


def speak(where: Transcript, model: Lines, programs: Reports | None = None) -> Step | Stop:
    subject = CodingSubject(
        chat=ChatSubject(model, Sampling(), HistoryPolicy.LAST_CODE_AND_FEEDBACK),
        programs=programs or Reports(),
        suite=SUITE,
        code_of=lambda text: text.removeprefix("code: "),
        recompile=lambda code, error: f"{code} does not compile: {error.strip()}",
    )
    return asyncio.run(subject.speak(where))


def shown(model: Lines) -> list[list[str]]:
    return [[message.content for message in request.messages] for request in model.asked]


def test_an_answer_carries_what_running_its_code_with_the_whole_suite_told() -> None:
    programs = Reports()
    step = speak(SECOND, Lines([paid("code: right")]), programs)
    assert isinstance(step, Step)
    assert step.program == report_of("right")
    assert programs.asked == [("unittest", "right", ("module",))]
    assert (step.content, step.n_calls, step.output_tokens) == ("code: right", 1, 3)


def test_code_that_does_not_compile_is_asked_for_again_with_that_code_and_the_compiler_s_message_alone() -> (
    None
):
    model = Lines([paid("broken 2"), paid("broken 3"), paid("wrong")])
    step = speak(SECOND, model)
    assert shown(model) == [
        ["feedback on broken 1"],
        ["broken 2 does not compile: error in broken 2"],
        ["broken 3 does not compile: error in broken 3"],
    ]
    assert [(request.turn, request.problem_id, request.sample) for request in model.asked] == [
        (2, "p/1", 2)
    ] * 3
    assert [request.seed for request in model.asked] == [9, 10, 11]
    assert isinstance(step, Step)
    assert (step.content, step.program) == ("wrong", report_of("wrong"))
    assert (step.n_calls, step.input_tokens, step.output_tokens, step.latency_s) == (3, 30, 9, 1.5)


def test_a_round_has_three_calls_at_most_and_its_last_answer_stands() -> None:
    model = Lines([paid(f"broken {n}") for n in range(2, 9)])
    step = speak(SECOND, model)
    assert isinstance(step, Step)
    assert (len(model.asked), step.content, step.program) == (3, "broken 4", report_of("broken 4"))


def test_in_the_first_round_there_is_one_call_whatever_it_says() -> None:
    model = Lines([paid("broken 1"), paid("right")])
    step = speak(FIRST, model)
    assert isinstance(step, Step)
    assert (len(model.asked), step.content) == (1, "broken 1")


def test_code_that_compiles_and_fails_is_not_asked_for_again() -> None:
    model = Lines([paid("wrong"), paid("right")])
    speak(SECOND, model)
    assert len(model.asked) == 1


def test_tokens_that_one_call_does_not_tell_are_not_known_of_the_round() -> None:
    step = speak(SECOND, Lines([paid("broken 2"), Completion("right", n_calls=1)]))
    assert isinstance(step, Step)
    assert (step.n_calls, step.input_tokens, step.output_tokens, step.latency_s) == (
        2,
        None,
        None,
        None,
    )


def test_an_answer_stands_where_the_model_refuses_to_mend_it() -> None:
    step = speak(SECOND, Lines([paid("broken 2"), Completion("", "context_length", n_calls=1)]))
    assert isinstance(step, Step)
    assert (step.content, step.n_calls) == ("broken 2", 2)


def test_a_refusal_of_the_round_itself_ends_the_dialogue() -> None:
    stop = speak(SECOND, Lines([Completion("", "context_length", n_calls=1)]))
    assert isinstance(stop, Stop)
    assert stop.unsent is not None
    assert (stop.reason, stop.unsent.n_calls) == (StopReason.SUBJECT_ERROR, 1)


def test_a_filter_s_refusal_within_the_round_costs_the_whole_round() -> None:
    first = Completion("broken 2", "stop", input_tokens=7, output_tokens=3, n_calls=1)
    second = Completion("", "content_filter", input_tokens=5, output_tokens=0, n_calls=2)
    stop = speak(SECOND, Lines([first, second]))
    assert isinstance(stop, Stop)
    assert stop.unsent is not None
    assert (stop.reason, stop.unsent.n_calls) == (StopReason.REFUSED, 3)
    assert (stop.unsent.input_tokens, stop.unsent.output_tokens) == (12, 3)


def test_a_sandbox_that_is_down_is_infra_and_what_was_paid_is_counted() -> None:
    stop = speak(SECOND, Lines([paid("right")]), Reports(is_down=True))
    assert isinstance(stop, Stop)
    assert stop.unsent is not None
    assert (stop.reason, stop.error, stop.unsent.n_calls) == (StopReason.INFRA, "no sandbox", 1)


def test_a_model_that_is_gone_within_the_round_is_infra_with_all_its_calls() -> None:
    with pytest.raises(ModelUnavailable, match="gone") as raised:
        speak(
            SECOND, Lines([paid("broken 2"), ModelUnavailable("gone", permanent=True, n_calls=4)])
        )
    assert (raised.value.n_calls, raised.value.permanent) == (5, True)

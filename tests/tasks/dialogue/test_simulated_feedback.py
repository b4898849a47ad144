"""A simulated user: what they are asked, which part of their answer is heard, and what happens to
answers without it.
"""

import asyncio
from dataclasses import asdict

import pytest

from schemas.dialog import Role
from schemas.episode import Feedback
from schemas.errors import AnswerMissing, ModelUnavailable
from schemas.run import Sampling
from tasks.dialogue.simulated_feedback import (
    FeedbackPrompt,
    Remark,
    SimulatedFeedback,
    answer_field,
)
from tasks.language.chat_model import Completion, Spent
from tests.tasks.dialogue.feedback_participants import (
    Lines,
    answer,
    paid,
    report_of,
    transcript,
    user,
)

HERE = transcript(user(1), answer(1, "wrong", report_of("wrong")))
SEEN = Feedback(compilation="fine")


def prompt(code: str, seen: Feedback) -> FeedbackPrompt:
    return FeedbackPrompt(
        "example", "why", "so", f"case of {code}, {seen.compilation}", "only the feedback, please"
    )


def cost(*spent: float) -> dict[str, object]:
    facts = {"finish_reason": "stop", "served_model": "served", "adapted": ()}
    return asdict(Spent(*spent)) | facts


def remark(model: Lines, writes_code: bool = True) -> Remark:
    speaker = SimulatedFeedback(model, Sampling(max_tokens=7), prompt, writes_code)
    return asyncio.run(speaker.remark(HERE, "wrong", SEEN))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("Reasoning: a\nFeedback: b", "b"),
        ("Reasoning: a\n\nFeedback:\n1. b\n2. c\n", "1. b\n2. c"),
        ("**Reasoning:** a\n**Feedback:** b", "b"),
        ("### Feedback:\nb", "b"),
        ("- feedback : b", "b"),
        ("Reasoning: a\nUser Feedback: b", "b"),
        ("Feedback: a\nUser Feedback: b", None),
        ("Feedback: b\nReasoning: a", "b"),
        ("Reasoning: the Execution feedback: is long\nExecution feedback: x\nFeedback: b", "b"),
        ("b", None),
        ("Reasoning: a", None),
        ("Feedback:", None),
        ("Feedback: \nReasoning: a", None),
        ("Reasoning: a draft is\nFeedback: b\nbut it gives the solution away\nFeedback: c", None),
        ("", None),
    ],
)
def test_the_answer_field(text: str, field: str | None) -> None:
    assert answer_field(text) == field


def test_the_first_request_shows_an_example_that_is_answered_in_both_fields() -> None:
    model = Lines([paid("Reasoning: r\nFeedback: mend it")])
    assert remark(model) == Remark("mend it", cost(10, 3, 0.5, 1))
    (asked,) = model.asked
    assert [(message.role, message.content) for message in asked.messages] == [
        (Role.USER, "example"),
        (Role.ASSISTANT, "Reasoning: why\nFeedback: so"),
        (Role.USER, "case of wrong, fine"),
    ]
    assert (asked.problem_id, asked.turn, asked.sample, asked.seed, asked.sampling.max_tokens) == (
        "p/1",
        2,
        2,
        9,
        7,
    )


def test_an_answer_without_the_field_is_taken_for_reasoning_and_the_field_is_asked_for() -> None:
    model = Lines([paid("thoughts " * 1000), paid("Feedback: mend it")])
    assert remark(model) == Remark("mend it", cost(20, 6, 1.0, 2))
    again = model.asked[1]
    assert again.seed == 10
    assert [message.role for message in again.messages] == [Role.USER, Role.ASSISTANT] * 3 + [
        Role.USER
    ]
    assert [message.content for message in again.messages] == [
        "example",
        "Reasoning: why",
        "only the feedback, please",
        "Feedback: so",
        "case of wrong, fine",
        ("thoughts " * 1000)[:2000],
        "only the feedback, please",
    ]


def test_nothing_of_answers_without_the_field_is_passed_on() -> None:
    model = Lines(
        [
            paid("secret"),
            paid("", "length"),
            paid("secret again", "length"),
            paid("Feedback: too late"),
        ]
    )
    with pytest.raises(
        ModelUnavailable, match=r"control:lines: none of 3 answers in round 2 of p/1.*'Feedback:'"
    ) as raised:
        remark(model)
    assert "secret" not in str(raised.value)
    assert "finish reason of the last: length" in str(raised.value)
    assert (raised.value.n_calls, raised.value.permanent) == (3, False)
    assert model.asked[2].messages[-2].content == "-"


def test_feedback_without_code_ends_where_a_fenced_block_begins() -> None:
    text = "Feedback: the loop is wrong.\n```python\nreturn 1\n```\nand so on"
    assert remark(Lines([paid(text)]), writes_code=False).text == "the loop is wrong."
    assert remark(Lines([paid(text)])).text.endswith("and so on")


def test_feedback_that_is_nothing_but_code_is_asked_for_again() -> None:
    model = Lines([paid("Feedback:\n```\nreturn 1\n```"), paid("Feedback: mend it")])
    assert remark(model, writes_code=False).text == "mend it"


@pytest.mark.parametrize("reason", ["context_length", "content_filter"])
def test_a_refusal_is_not_asked_for_again(reason: str) -> None:
    model = Lines([Completion("", reason, n_calls=1), paid("Feedback: b")])
    with pytest.raises(ModelUnavailable, match=reason):
        remark(model)
    assert len(model.asked) == 1


def test_a_simulator_that_is_gone_counts_the_calls_before() -> None:
    with pytest.raises(ModelUnavailable) as raised:
        remark(Lines([paid("secret"), ModelUnavailable("gone", n_calls=5)]))
    assert (raised.value.n_calls, str(raised.value)) == (6, "gone")


def test_a_recorded_simulator_without_the_answer_is_no_fault_of_the_subject_s() -> None:
    with pytest.raises(ModelUnavailable, match="simulator: recording has none") as raised:
        remark(Lines([AnswerMissing("recording has none")]))
    assert raised.value.permanent

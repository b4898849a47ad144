"""Answers that were paid for before their message was ready are kept, found again, and never used
for another request.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Role
from schemas.episode import StopReason, ToolCall
from schemas.run import ModelIdentity, Sampling
from tasks.language.chat_model import ChatRequest, Completion, Message, ToolSpec
from tasks.storage.journaling.journal import JournalWriter, Unfinished, read_journal
from tasks.storage.pending import unfinished
from tasks.worker.paid_answers import PaidAnswers, RememberingModel, answer_key
from tests.tasks.planning.test_report import episode
from tests.tasks.storage.test_journal import steps

REQUEST = ChatRequest(
    (Message(Role.USER, "Write solve(x)."),), Sampling(), seed=0, problem_id="p", turn=1, sample=0
)
ANSWER = Completion(
    "def solve(x): …", "stop", input_tokens=3, output_tokens=4, latency_s=0.5, served_model="m-1"
)

CALL = ToolCall(call_id="c", name="read", arguments="{}")


class Counting:
    """Answers anything with `ANSWER`, or with one that cost nothing."""

    identity = ModelIdentity(provider="openai", name="m")

    def __init__(self, answer: Completion = ANSWER) -> None:
        self.answer, self.n_asked = answer, 0

    async def complete(self, request: ChatRequest) -> Completion:
        self.n_asked += 1
        return self.answer

    async def aclose(self) -> None: ...


def ask(model: Counting, paid: PaidAnswers, *requests: ChatRequest) -> tuple[Completion, ...]:
    async def all_of_them() -> tuple[Completion, ...]:
        return tuple(
            [await RememberingModel(model, paid).complete(request) for request in requests]
        )

    return asyncio.run(all_of_them())


def test_what_was_kept_is_not_asked_for_again(tmp_path: Path) -> None:
    writer, model = JournalWriter(tmp_path), Counting()
    paid = PaidAnswers((), lambda answers: writer.append_answers("e1", 1, answers))
    ask(model, paid, REQUEST)
    paid.keep()
    found = read_journal(tmp_path)["e1"]
    assert (found.attempt, found.steps, [answer for *_, answer in found.answers]) == (
        1,
        (),
        [ANSWER],
    )
    known = [(key, answer) for _, key, answer in found.answers]
    assert ask(model, PaidAnswers(known, lambda _: None), REQUEST) == (ANSWER,)
    assert model.n_asked == 1


def test_keys_of_requests_without_tools_are_those_of_older_journals() -> None:
    assert answer_key("openai:m", REQUEST) == content_id(
        ["openai:m", 1, 0, [["user", "Write solve(x)."]]]
    )


def test_the_calls_of_a_kept_answer_are_read_back(tmp_path: Path) -> None:
    answer = replace(ANSWER, calls=(CALL,))
    JournalWriter(tmp_path).append_answers("e1", 1, {"key": answer})
    assert [kept for *_, kept in read_journal(tmp_path)["e1"].answers] == [answer]


def test_who_asks_the_same_again_is_not_given_the_same_answer() -> None:
    """A simulator that forgot its field is asked anew, with the same words."""
    model, better = Counting(replace(ANSWER, content="better")), replace(ANSWER, content="good")
    key = answer_key("openai:m", REQUEST)
    paid = PaidAnswers([(key, ANSWER), (key, better)], lambda _: None)
    assert ask(model, paid, REQUEST, REQUEST, REQUEST) == (ANSWER, better, model.answer)
    assert model.n_asked == 1


def test_another_request_is_asked() -> None:
    model, kept = Counting(), dict[str, Completion]()
    paid = PaidAnswers((), kept.update)
    ask(model, paid, REQUEST)
    paid.keep()
    others = (
        replace(REQUEST, seed=1),
        replace(REQUEST, turn=2),
        replace(REQUEST, messages=(Message(Role.USER, "Write it."),)),
        replace(REQUEST, messages=(Message(Role.SYSTEM, "Write solve(x)."),)),
        replace(REQUEST, messages=(Message(Role.USER, "Write solve(x).", call_id="c"),)),
        replace(REQUEST, messages=(Message(Role.USER, "Write solve(x).", (CALL,)),)),
        replace(REQUEST, call_index=1),
        replace(REQUEST, tools=(ToolSpec("read", "", {}),)),
    )
    ask(model, PaidAnswers(kept.items(), lambda _: None), *others)
    assert model.n_asked == 1 + len(others)


def test_an_answer_is_written_before_a_program_or_another_request_and_not_where_its_message_is() -> (
    None
):
    written: list[Mapping[str, Completion]] = []
    paid, model = PaidAnswers((), written.append), Counting()
    ask(model, paid, REQUEST)
    paid.forget()
    paid.keep()
    assert not written, "the message that holds it was kept at once"
    ask(model, paid, REQUEST, replace(REQUEST, seed=1))
    assert [len(answers) for answers in written] == [1]
    paid.keep()
    assert [len(answers) for answers in written] == [1, 1]


def test_an_answer_that_cost_nothing_is_not_written() -> None:
    written: list[Mapping[str, Completion]] = []
    paid = PaidAnswers((), written.append)
    ask(Counting(replace(ANSWER, n_calls=0)), paid, REQUEST)
    paid.keep()
    assert not written


def test_answers_of_an_attempt_that_ended_are_asked_for_again() -> None:
    """A simulator that forgot the field three times would forget it for ever."""
    ended = episode("e1", StopReason.INFRA).model_copy(
        update={"error": "no field", "steps": tuple(steps(1))}
    )
    journal = Unfinished(2, tuple(steps(1)), ((1, "bad", ANSWER), (2, "good", ANSWER)))
    assert unfinished(["e1"], {"e1": journal}, {"e1": ended})["e1"].answers == (
        (2, "good", ANSWER),
    )
    assert unfinished(["e1"], {"e1": journal}, {})["e1"].answers == journal.answers
    assert (
        unfinished(["e1"], {"e1": Unfinished(1, (), ((1, "bad", ANSWER),))}, {"e1": ended})[
            "e1"
        ].answers
        == ()
    )

"""What a build was told is kept at once, and not asked for again."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.backends.unisolated import UnisolatedSandbox
from schemas.dialog import Role
from schemas.errors import ModelUnavailable
from schemas.run import Limits, ModelIdentity, Sampling
from schemas.verdict import Outcome, ProgramVerdict
from tasks.driver.stored_calls import (
    CALLS,
    PROGRAMS,
    Counts,
    ReusingModel,
    StoredCalls,
    request_key,
)
from tasks.language.chat_model import ChatRequest, Completion, Message
from tasks.storage.paid_calls import read_calls
from tasks.worker.program_book import BookReader, ProgramBook, ProgramFacts

WHO = ModelIdentity(provider="openai", name="m", revision="1")
ASKED = ChatRequest((Message(Role.USER, "Why?"),), Sampling(), 0, "p1", 1, 0)


class Counting:
    """A model that answers with the number of the request, or fails."""

    def __init__(self, faults: int = 0) -> None:
        self.identity, self.n_asked, self._faults = WHO, 0, faults

    async def complete(self, request: ChatRequest) -> Completion:
        self.n_asked += 1
        number = self.n_asked
        await asyncio.sleep(0.01)
        if number <= self._faults:
            raise ModelUnavailable("not there")
        return Completion(f"{number}", output_tokens=3)

    async def aclose(self) -> None:
        pass


def ask(folder: Path, model: Counting, requests: Sequence[ChatRequest]) -> tuple[list[str], Counts]:
    """The answers of one invocation."""
    kept = StoredCalls(folder)
    asking = ReusingModel(WHO, "model", kept, lambda: model)

    async def ask_all() -> list[str]:
        answers = await asyncio.gather(*(asking.complete(request) for request in requests))
        return [answer.content for answer in answers]

    try:
        return asyncio.run(ask_all()), kept.calls(["model"])["model"]
    finally:
        kept.close()


def test_equal_requests_are_sent_once_now_and_later(tmp_path: Path) -> None:
    model, other = Counting(), replace(ASKED, seed=1)
    assert ask(tmp_path, model, [ASKED, other, ASKED]) == (["1", "2", "1"], Counts(2, 0))
    assert ask(tmp_path, model, [ASKED, ASKED]) == (["1", "1"], Counts(0, 1))
    assert model.n_asked == 2


def test_a_fault_is_not_kept_and_a_torn_row_is_asked_for_again(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable):
        ask(tmp_path, Counting(faults=1), [ASKED])
    assert ask(tmp_path, Counting(), [ASKED])[1] == Counts(1, 0)
    (segment,) = tmp_path.glob("*.jsonl")
    segment.write_bytes(segment.read_bytes()[:-5])
    assert ask(tmp_path, Counting(), [ASKED])[1] == Counts(1, 0)


def test_who_gave_up_waiting_has_paid_all_the_same(tmp_path: Path) -> None:
    kept = StoredCalls(tmp_path)
    asking = ReusingModel(WHO, "model", kept, Counting)

    async def leave() -> None:
        waiting = asyncio.create_task(asking.complete(ASKED))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        await kept.drain()

    asyncio.run(leave())
    assert StoredCalls(tmp_path).n_stored == {"model": 1}


def test_the_key_holds_what_the_endpoint_is_sent_and_nothing_else() -> None:
    same = replace(ASKED, problem_id="p2", turn=4, sample=2, dialog_id="d", rubric="a.b")
    assert request_key(WHO, same) == request_key(WHO, ASKED)
    others = (
        replace(ASKED, messages=(Message(Role.SYSTEM, "Why?"),)),
        replace(ASKED, seed=1),
        replace(ASKED, sampling=Sampling(max_tokens=5)),
        replace(ASKED, answer_schema={"type": "object"}),
    )
    again = WHO.model_copy(update={"revision": "2"})
    assert (
        len(
            {
                request_key(WHO, ASKED),
                request_key(again, ASKED),
                *(request_key(WHO, other) for other in others),
            }
        )
        == 6
    )


def test_a_verdict_that_hangs_on_the_machine_is_not_kept(tmp_path: Path) -> None:
    facts = ProgramFacts(1, "here", Limits(cpu_s=1, wall_s=10), ())
    reader = BookReader(lambda: book, count=lambda: kept.count_program())
    outcomes = list[Outcome]()

    async def run_all() -> None:
        for code in ("x = 1", "x = 2", "while True: pass"):
            outcomes.append((await reader.run("statements", code, ("assert x == 1",))).outcome)

    for counts in (Counts(3, 0), Counts(1, 2)):
        kept = StoredCalls(tmp_path)
        book = ProgramBook(facts, UnisolatedSandbox(), kept, threads=1)
        asyncio.run(run_all())
        assert kept.programs == counts
        kept.close()
    assert outcomes == [Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT] * 2
    rows = read_calls(tmp_path, CALLS).values()
    assert sorted(row.outcome for row in rows if isinstance(row, ProgramVerdict)) == [
        Outcome.FAILED,
        Outcome.PASSED,
    ]


def test_rows_of_the_release_before_are_known(tmp_path: Path) -> None:
    answer = {"content": "1", "output_tokens": 3, "calls": [], "adapted": []}
    rows = [
        {"key": request_key(WHO, ASKED), "role": "model", "answer": answer},
        {"key": "v", "role": PROGRAMS, "verdict": {"outcome": "passed", "verdict_id": "v"}},
    ]
    (tmp_path / "1-0-000000.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = Counting()
    assert ask(tmp_path, model, [ASKED]) == (["1"], Counts(0, 1))
    assert model.n_asked == 0
    assert read_calls(tmp_path, CALLS)["v"] == ProgramVerdict(
        outcome=Outcome.PASSED, verdict_id="v"
    )
    assert StoredCalls(tmp_path).n_stored == {"model": 1}

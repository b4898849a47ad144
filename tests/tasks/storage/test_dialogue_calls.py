"""Calls of dialogues: stored steps are replayed in order, and no answer is asked for again."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from schemas.content_id import content_id
from schemas.dialog import Role
from schemas.episode import Episode, Feedback, Step, StepKind, StopReason, ToolCall
from schemas.run import ModelIdentity, Sampling
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict
from tasks.language.chat_model import ChatRequest, Completion, Message, ToolSpec
from tasks.storage.journaling.dialogue_calls import (
    DIALOGUE_CALLS,
    DialogueCall,
    EpisodeCalls,
    ReplayedModel,
    Unfinished,
    answer_key,
    read_unfinished,
)
from tasks.storage.journaling.segments import remove_segments
from tasks.storage.paid_calls import Calls
from tests.tasks.planning.test_report import episode

REQUEST = ChatRequest(
    (Message(Role.USER, "Write solve(x)."),), Sampling(), seed=0, problem_id="p", turn=1, sample=0
)
ANSWER = Completion(
    "def solve(x): …", "stop", input_tokens=3, output_tokens=4, latency_s=0.5, served_model="m-1"
)

ANSWER_ROW = {
    "content": "def solve(x): …",
    "finish_reason": "stop",
    "input_tokens": 3,
    "output_tokens": 4,
    "latency_s": 0.5,
    "served_model": "m-1",
}
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


def ask(model: Counting, calls: EpisodeCalls, *requests: ChatRequest) -> tuple[Completion, ...]:
    async def all_of_them() -> tuple[Completion, ...]:
        return tuple([await ReplayedModel(model, calls).complete(request) for request in requests])

    return asyncio.run(all_of_them())


def steps(n_rounds: int, *, text: str = "x") -> list[Step]:
    return [
        Step(turn=turn, role=role, content=f"{text} {turn} {role}")
        for turn in range(1, n_rounds + 1)
        for role in (Role.USER, Role.ASSISTANT)
    ]


def player(
    calls: Calls[DialogueCall],
    episode_id: str = "e1",
    attempt: int = 1,
    begun: Unfinished | None = None,
) -> EpisodeCalls:
    """An attempt at an episode that writes as a worker does."""

    def put(answers: Mapping[str, Step | Completion]) -> None:
        calls.put({k: DialogueCall(episode_id, attempt, answer) for k, answer in answers.items()})

    return EpisodeCalls(episode_id, begun or Unfinished(0), put)


def store(folder: Path) -> Calls[DialogueCall]:
    return Calls(folder, DIALOGUE_CALLS, remembers=False)


def append(
    folder: Path,
    episode_id: str,
    attempt: int,
    new: Sequence[Step],
    before: Sequence[Step] = (),
) -> None:
    """Store steps of an attempt that began after the steps `before`."""
    calls = store(folder)
    playing = player(calls, episode_id, attempt, Unfinished(attempt - 1, tuple(before)))
    for step in new:
        playing.add(step, is_paid=True)
    calls.close()


def read(folder: Path) -> tuple[Step, ...]:
    found = read_unfinished(folder)
    return found["e1"].steps if found else ()


def test_steps_are_read_back_in_order_from_the_segments_of_several_processes(
    tmp_path: Path,
) -> None:
    append(tmp_path, "e1", 1, steps(3))
    append(tmp_path, "e2", 1, steps(1))
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    found = read_unfinished(tmp_path)
    assert found == {"e1": Unfinished(1, tuple(steps(3))), "e2": Unfinished(1, tuple(steps(1)))}
    assert set(read_unfinished(tmp_path, ["e2"])) == {"e2"}


def test_a_step_without_a_request_is_written_with_the_next_one(tmp_path: Path) -> None:
    calls, (user, answer) = store(tmp_path), steps(1)
    playing = player(calls)
    playing.add(user, is_paid=False)
    assert not list(tmp_path.glob("*.jsonl"))
    playing.add(answer, is_paid=True)
    assert read(tmp_path) == (user, answer)


def test_a_superseded_attempt_is_ignored_even_if_it_writes_last(tmp_path: Path) -> None:
    """Its late steps fork off the dialogue, or would lengthen the new attempt where texts equal."""
    old = steps(1, text="old")
    append(tmp_path, "e1", 1, old)
    zombie = store(tmp_path)
    append(tmp_path, "e1", 2, (new := [*old, *steps(3, text="new")[2:]])[2:], old)
    late = player(zombie, begun=Unfinished(1, tuple(old)))
    for step in steps(4, text="zombie")[2:]:
        late.add(step, is_paid=True)
    late = player(zombie, begun=Unfinished(1, tuple(new)))
    late.add(steps(4, text="zombie")[6], is_paid=True)
    assert read_unfinished(tmp_path)["e1"] == Unfinished(2, tuple(new))


def test_an_attempt_that_ended_as_infra_goes_on_from_its_last_step(tmp_path: Path) -> None:
    said = steps(4)
    ended = [ended_as_infra(said[:4], attempt=2)]
    append(tmp_path, "e1", 1, said[:2])
    assert read_unfinished(tmp_path, ["e1"], ended)["e1"] == Unfinished(2, tuple(said[:4]))
    append(tmp_path, "e1", 3, said[4:6], said[:4])
    assert read_unfinished(tmp_path, ["e1"], ended)["e1"] == Unfinished(3, tuple(said[:6]))
    assert read_unfinished(tmp_path / "none", ["e1"], ended)["e1"].steps == tuple(said[:4])
    empty = [ended_as_infra([], attempt=1)]
    assert read_unfinished(tmp_path / "none", ["e1"], empty) == {"e1": Unfinished(1)}


def ended_as_infra(said: Sequence[Step], attempt: int) -> Episode:
    return episode("e1", StopReason.INFRA).model_copy(
        update={"error": "no field", "steps": tuple(said), "attempt": attempt}
    )


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_kill_at_any_byte_loses_at_most_the_last_message(tmp_path_factory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("journal")
    said, playing = steps(4), player(store(folder))
    ends = []
    for step in said:
        playing.add(step, is_paid=True)
        ends.append(next(folder.glob("*.jsonl")).stat().st_size)
    segment = next(folder.glob("*.jsonl"))
    cut %= ends[-1] + 1
    os.truncate(segment, cut)
    whole = sum(end - 1 <= cut for end in ends)  # the line's own newline may be missing
    assert read(folder) == tuple(said[:whole])


def test_text_that_utf8_cannot_hold_is_kept_readable_and_the_next_step_is_found(
    tmp_path: Path,
) -> None:
    call = ToolCall(call_id="c", name="read", arguments='{"a": "\ud800"}')
    first = Step(turn=1, role=Role.USER, content="a\ud800b\n\u2028é", calls=(call,))
    append(tmp_path, "e1", 1, (first, steps(1)[1]))
    found = read(tmp_path)
    assert (found[0].content, found[1:]) == ("a?b\n\u2028é", (steps(1)[1],))


def test_a_removed_journal_is_gone_and_removing_it_again_is_harmless(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    append(folder, "e1", 1, steps(1))
    remove_segments(folder)
    remove_segments(folder)
    assert not folder.exists()
    assert read_unfinished(folder) == {}


def test_feedback_and_what_a_program_told_are_kept_and_text_that_utf8_cannot_hold_is_replaced(
    tmp_path: Path,
) -> None:
    case = CaseVerdict(
        name="TestCases.test_1", outcome=Outcome.FAILED, detail="AssertionError: ünï"
    )
    program = ProgramVerdict(
        verdict_id="v", outcome=Outcome.FAILED, reason=FailureReason.TAMPERING, cases=(case,)
    )
    answer = Step(turn=1, role=Role.ASSISTANT, content="x", program=program)
    user = Step(
        turn=2,
        role=Role.USER,
        content="y",
        feedback=Feedback(compilation="No errors", verbal="look \ud800 there"),
    )
    append(tmp_path, "e1", 1, (answer, user))
    kept = read(tmp_path)
    assert kept[0] == answer
    assert kept[1].feedback == Feedback(compilation="No errors", verbal="look ? there")


def test_rows_of_0_1_0_become_calls_and_the_episode_goes_on_after_them(tmp_path: Path) -> None:
    said, answers = steps(4), {"request": ANSWER_ROW}

    def row(attempt: int, at: int, part: Sequence[Step]) -> dict[str, object]:
        dumped = [step.model_dump(mode="json", exclude_defaults=True) for step in part]
        return {"episode_id": "e1", "attempt": attempt, "at": at, "steps": dumped}

    old = [
        row(1, 0, said[:2]),
        row(1, 2, steps(2, text="zombie")[2:]),
        {"episode_id": "e1", "attempt": 1, "steps": [], "answers": answers},
        row(2, 0, said[:2]),
        row(2, 2, said[2:4]),
        row(2, 2, said[2:4]),
        row(2, 6, said[6:]),
        {"episode_id": "e1", "attempt": 2, "at": 4, "steps": [{"turn": "damaged"}]},
    ]
    (tmp_path / "1-0.jsonl").write_text("".join(json.dumps(one) + "\n" for one in old))
    found = read_unfinished(tmp_path)["e1"]
    assert (found.attempt, found.steps) == (2, tuple(said[:4]))
    assert list(found.answers.values()) == [ANSWER]
    append(tmp_path, "e1", 3, said[4:6], said[:4])
    assert read_unfinished(tmp_path)["e1"].steps == tuple(said[:6])


def tool_steps(n_calls: int, observation: str = "ok") -> list[Step]:
    """A turn of many calls of one tool, one after another."""
    taken: list[Step] = [Step(turn=1, role=Role.USER, content="q")]
    for n in range(n_calls):
        call = ToolCall(call_id=f"c{n}", name="read", arguments="{}")
        taken.append(
            Step(turn=1, role=Role.ASSISTANT, kind=StepKind.TOOL_CALL, content="", calls=(call,))
        )
        taken.append(
            Step(
                turn=1,
                role=Role.TOOL,
                kind=StepKind.OBSERVATION,
                content=observation,
                call_id=f"c{n}",
            )
        )
    return taken


def test_equal_steps_of_one_turn_are_found_in_order_and_each_is_written_once(
    tmp_path: Path,
) -> None:
    said, playing = tool_steps(100, "x" * 10_000), player(store(tmp_path))
    for step in said:
        playing.add(step, is_paid=True)
    n_bytes = sum(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
    assert n_bytes < 1.06 * 100 * 10_000
    assert read(tmp_path) == tuple(said)
    append(tmp_path, "e1", 2, said[:1], said)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) < n_bytes + 1000
    assert read(tmp_path) == (*said, said[0])


def test_a_stored_answer_is_not_asked_for_again(tmp_path: Path) -> None:
    answer = replace(ANSWER, calls=(CALL,))
    model, calls = Counting(answer), store(tmp_path)
    playing = player(calls)
    ask(model, playing, REQUEST)
    playing.keep_answers()
    found = read_unfinished(tmp_path)["e1"]
    assert (found.attempt, found.steps, list(found.answers.values())) == (1, (), [answer])
    assert ask(model, player(calls, begun=found), REQUEST) == (answer,)
    assert model.n_asked == 1


def test_keys_of_requests_without_tools_are_those_of_older_journals() -> None:
    assert answer_key("openai:m", REQUEST) == content_id(
        ["openai:m", 1, 0, [["user", "Write solve(x)."]]]
    )


def test_who_asks_the_same_again_is_not_given_the_same_answer(tmp_path: Path) -> None:
    """A simulator that forgot its field is asked anew, with the same words."""
    calls, good = store(tmp_path), replace(ANSWER, content="good")
    playing = player(calls)
    ask(Counting(), playing, REQUEST)
    ask(Counting(good), playing, REQUEST)
    playing.keep_answers()
    found, better = read_unfinished(tmp_path)["e1"], Counting(replace(ANSWER, content="better"))
    resumed = player(calls, attempt=2, begun=found)
    assert ask(better, resumed, REQUEST, REQUEST, REQUEST) == (ANSWER, good, better.answer)
    assert better.n_asked == 1
    resumed.keep_answers()
    last = read_unfinished(tmp_path)["e1"]
    assert ask(better, player(calls, attempt=3, begun=last), REQUEST, REQUEST, REQUEST)[2] == (
        better.answer
    )
    assert better.n_asked == 1


def test_another_request_is_asked(tmp_path: Path) -> None:
    model, calls = Counting(), store(tmp_path)
    playing = player(calls)
    ask(model, playing, REQUEST)
    playing.keep_answers()
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
    ask(model, player(calls, begun=read_unfinished(tmp_path)["e1"]), *others)
    assert model.n_asked == 1 + len(others)


def test_an_answer_is_written_before_a_program_or_another_request_and_not_where_its_step_is() -> (
    None
):
    written: list[Mapping[str, Step | Completion]] = []
    playing, model = (
        EpisodeCalls("e1", Unfinished(0), lambda rows: written.append(dict(rows))),
        Counting(),
    )
    ask(model, playing, REQUEST)
    playing.add(steps(1)[1], is_paid=True)
    playing.keep_answers()
    assert [type(answer) for rows in written for answer in rows.values()] == [Step]
    written.clear()
    ask(model, playing, REQUEST, replace(REQUEST, seed=1))
    assert [len(answers) for answers in written] == [1]
    playing.keep_answers()
    assert [len(answers) for answers in written] == [1, 1]


def test_an_answer_that_cost_nothing_is_not_written(tmp_path: Path) -> None:
    playing = player(store(tmp_path))
    ask(Counting(replace(ANSWER, n_calls=0)), playing, REQUEST)
    playing.keep_answers()
    assert not list(tmp_path.glob("*.jsonl"))


def test_answers_of_an_attempt_that_ended_are_asked_for_again(tmp_path: Path) -> None:
    """A simulator that forgot the field three times would forget it for ever."""
    for attempt, seed in ((1, 1), (2, 2)):
        playing = player(store(tmp_path), attempt=attempt)
        ask(
            Counting(replace(ANSWER, content=f"of {attempt}")), playing, replace(REQUEST, seed=seed)
        )
        playing.keep_answers()
    ended = [ended_as_infra(steps(1), attempt=1)]
    found = read_unfinished(tmp_path, ["e1"], ended)["e1"]
    assert [answer.content for answer in found.answers.values()] == ["of 2"]
    assert len(read_unfinished(tmp_path, ["e1"])["e1"].answers) == 2

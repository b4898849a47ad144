import json
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall
from schemas.feedback import Feedback
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict
from tasks.storage.journaling.journal import JournalWriter, read_journal
from tasks.storage.journaling.segments import remove_segments


def steps(n_rounds: int, *, text: str = "x") -> list[Step]:
    return [
        Step(turn=turn, role=role, content=f"{text} {turn} {role}")
        for turn in range(1, n_rounds + 1)
        for role in (Role.USER, Role.ASSISTANT)
    ]


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    for at, step in enumerate(steps(3)):
        writer.append("e1", 1, at, (step,))
    writer.append("e2", 1, 0, steps(1))
    found = read_journal(tmp_path)
    assert found["e1"].steps == tuple(steps(3))
    assert found["e2"].steps == tuple(steps(1))


def test_segments_of_several_processes_are_one_journal(tmp_path: Path) -> None:
    first, second = JournalWriter(tmp_path), JournalWriter(tmp_path)
    first.append("e1", 1, 0, steps(1))
    second.append("e2", 1, 0, steps(2))
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    assert {k: len(v.steps) for k, v in read_journal(tmp_path).items()} == {"e1": 2, "e2": 4}


def test_a_superseded_attempt_is_ignored_even_if_it_writes_last(tmp_path: Path) -> None:
    zombie, successor = JournalWriter(tmp_path), JournalWriter(tmp_path)
    zombie.append("e1", 1, 0, steps(1, text="old"))
    successor.append("e1", 2, 0, steps(1, text="old"))
    successor.append("e1", 2, 2, steps(2, text="new")[2:])
    zombie.append("e1", 1, 2, steps(3, text="zombie")[2:])
    assert read_journal(tmp_path)["e1"].attempt == 2
    assert [s.content.split()[0] for s in read_journal(tmp_path)["e1"].steps] == [
        "old",
        "old",
        "new",
        "new",
    ]


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_kill_at_any_byte_loses_at_most_the_last_message(tmp_path_factory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("journal")
    writer = JournalWriter(folder)
    said = steps(4)
    ends = []
    for at, step in enumerate(said):
        writer.append("e1", 1, at, (step,))
        ends.append(next(folder.glob("*.jsonl")).stat().st_size)
    segment = next(folder.glob("*.jsonl"))
    cut %= ends[-1] + 1
    os.truncate(segment, cut)
    whole = sum(end - 1 <= cut for end in ends)  # the line's own newline may be missing
    found = read_journal(folder)
    assert (found["e1"].steps if found else ()) == tuple(said[:whole])


def test_messages_after_a_gap_are_left_out(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    said = steps(3)
    for at in (0, 1, 4, 5):
        writer.append("e1", 1, at, said[at : at + 1])
    assert read_journal(tmp_path)["e1"].steps == tuple(said[:2])


def test_only_wanted_episodes_are_read(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    writer.append("e1", 1, 0, steps(1))
    writer.append("e2", 1, 0, steps(1))
    assert set(read_journal(tmp_path, ["e2"])) == {"e2"}


def test_text_that_utf8_cannot_hold_is_kept_readable(tmp_path: Path) -> None:
    JournalWriter(tmp_path).append(
        "e1", 1, 0, (Step(turn=1, role=Role.USER, content="a\ud800b\n\u2028é"),)
    )
    assert read_journal(tmp_path)["e1"].steps[0].content == "a?b\n\u2028é"


def test_a_removed_journal_is_gone_and_removing_it_again_is_harmless(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    JournalWriter(folder).append("e1", 1, 0, steps(1))
    remove_segments(folder)
    remove_segments(folder)
    assert not folder.exists()
    assert read_journal(folder) == {}


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
    JournalWriter(tmp_path).append("e1", 1, 0, (answer, user))
    kept = read_journal(tmp_path)["e1"].steps
    assert kept[0] == answer
    assert kept[1].feedback == Feedback(compilation="No errors", verbal="look ? there")


def test_lines_of_an_older_parley_are_read_and_repeated_messages_and_a_gap_left_out(
    tmp_path: Path,
) -> None:
    said = steps(3)
    lines = [said[:2], said[1:2], said[4:]]
    older = [
        {
            "episode_id": "e1",
            "attempt": 1,
            "steps": [{"n_calls": 0, **s.model_dump(mode="json")} for s in part],
        }
        for part in lines
    ]
    (tmp_path / "1-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in older))
    assert read_journal(tmp_path)["e1"].steps == tuple(said[:2])
    JournalWriter(tmp_path).append("e1", 2, 0, said)
    assert read_journal(tmp_path)["e1"].steps == tuple(said)


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


def test_steps_of_one_turn_and_role_are_kept_by_their_place(tmp_path: Path) -> None:
    said, writer = tool_steps(4), JournalWriter(tmp_path)
    for at, step in enumerate(said):
        writer.append("e1", 1, at, (step,))
    writer.append("e1", 1, 2, said[2:4])
    assert read_journal(tmp_path)["e1"].steps == tuple(said)


def test_a_turn_of_a_hundred_large_observations_is_written_once(tmp_path: Path) -> None:
    said, writer = tool_steps(100, "x" * 10_000), JournalWriter(tmp_path)
    sizes = []
    for at, step in enumerate(said):
        writer.append("e1", 1, at, (step,))
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")))
    assert sizes[-1] < 1.05 * 100 * 10_000
    assert 1.9 < sizes[-1] / sizes[len(said) // 2] < 2.1
    writer.append("e1", 2, 0, said)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) < 2.1 * 100 * 10_000, (
        "taken up once, repeated once"
    )
    assert read_journal(tmp_path)["e1"].steps == tuple(said)

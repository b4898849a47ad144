import json
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from schemas.dialog import Role
from schemas.episode import Step
from schemas.feedback import Feedback
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict
from tasks.storage.journal import JournalWriter, read_journal, remove_journal


def steps(n_rounds: int, *, text: str = "x") -> list[Step]:
    return [
        Step(turn=turn, role=role, content=f"{text} {turn} {role}")
        for turn in range(1, n_rounds + 1)
        for role in (Role.USER, Role.ASSISTANT)
    ]


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    for step in steps(3):
        writer.append("e1", 1, (step,))
    writer.append("e2", 1, steps(1))
    found = read_journal(tmp_path)
    assert found["e1"].steps == tuple(steps(3))
    assert found["e2"].steps == tuple(steps(1))


def test_segments_of_several_processes_are_one_journal(tmp_path: Path) -> None:
    first, second = JournalWriter(tmp_path), JournalWriter(tmp_path)
    first.append("e1", 1, steps(1))
    second.append("e2", 1, steps(2))
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    assert {k: len(v.steps) for k, v in read_journal(tmp_path).items()} == {"e1": 2, "e2": 4}


def test_a_superseded_attempt_is_ignored_even_if_it_writes_last(tmp_path: Path) -> None:
    zombie, successor = JournalWriter(tmp_path), JournalWriter(tmp_path)
    zombie.append("e1", 1, steps(1, text="old"))
    successor.append("e1", 2, steps(1, text="old"))
    successor.append("e1", 2, steps(2, text="new")[2:])
    zombie.append("e1", 1, steps(3, text="zombie")[2:])
    assert read_journal(tmp_path)["e1"].attempt == 2
    assert [s.content.split()[0] for s in read_journal(tmp_path)["e1"].steps] == ["old", "old", "new", "new"]


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_kill_at_any_byte_loses_at_most_the_last_message(tmp_path_factory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("journal")
    writer = JournalWriter(folder)
    said = steps(4)
    ends = []
    for step in said:
        writer.append("e1", 1, (step,))
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
    for step in (*said[:2], *said[4:]):
        writer.append("e1", 1, (step,))
    assert read_journal(tmp_path)["e1"].steps == tuple(said[:2])


def test_only_wanted_episodes_are_read(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    writer.append("e1", 1, steps(1))
    writer.append("e2", 1, steps(1))
    assert set(read_journal(tmp_path, ["e2"])) == {"e2"}


def test_text_that_utf8_cannot_hold_is_kept_readable(tmp_path: Path) -> None:
    JournalWriter(tmp_path).append("e1", 1, (Step(turn=1, role=Role.USER, content="a\ud800b\n\u2028é"),))
    assert read_journal(tmp_path)["e1"].steps[0].content == "a?b\n\u2028é"


def test_a_removed_journal_is_gone_and_removing_it_again_is_harmless(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    JournalWriter(folder).append("e1", 1, steps(1))
    remove_journal(folder)
    remove_journal(folder)
    assert not folder.exists()
    assert read_journal(folder) == {}


def test_feedback_and_what_a_program_told_are_kept_and_text_that_utf8_cannot_hold_is_replaced(tmp_path: Path) -> None:
    case = CaseVerdict(name="TestCases.test_1", outcome=Outcome.FAILED, detail="AssertionError: ünï")
    program = ProgramVerdict(verdict_id="v", outcome=Outcome.FAILED, reason=FailureReason.TAMPERING, cases=(case,))
    answer = Step(turn=1, role=Role.ASSISTANT, content="x", program=program)
    user = Step(turn=2, role=Role.USER, content="y", feedback=Feedback(compilation="No errors", verbal="look \ud800 there"))
    JournalWriter(tmp_path).append("e1", 1, (answer, user))
    kept = read_journal(tmp_path)["e1"].steps
    assert kept[0] == answer
    assert kept[1].feedback == Feedback(compilation="No errors", verbal="look ? there")


def test_lines_of_an_older_parley_are_read(tmp_path: Path) -> None:
    older = {"turn": 1, "role": "user", "content": "q", "n_calls": 0}
    (tmp_path / "1-0.jsonl").write_text(json.dumps({"episode_id": "e1", "attempt": 1, "steps": [older]}) + "\n")
    assert read_journal(tmp_path)["e1"].steps == (Step(turn=1, role=Role.USER, content="q"),)

"""One store of paid calls: whatever is killed, torn or damaged, no answer is wrong, and at most the
damaged one is paid again.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import DiskFull
from tasks.judging.rubric import Judgement
from tasks.storage.journaling import segments
from tasks.storage.journaling.segments import Form, read_segments
from tasks.storage.paid_calls import Calls, read_calls
from tasks.worker.judge_shard import JUDGEMENTS
from tests.own_files import ROOT

WORDS = Form[str]("a word", lambda row: row["answer"])
ANSWERS = {f"key {n}": f"answer {n}" for n in range(5)}


def kept_in(folder: Path, answers: Mapping[str, str] = ANSWERS) -> Path:
    """Return the segment of a process that was answered this."""
    calls = Calls(folder, WORDS)
    for key, answer in answers.items():
        calls.put({key: answer})
    calls.close()
    (segment,) = folder.glob("*.jsonl")
    return segment


@given(cut=st.integers(0, 400))
def test_a_torn_line_costs_its_answer_alone(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("calls")
    segment = kept_in(folder)
    content = segment.read_bytes()
    cut %= len(content) + 1
    os.truncate(segment, cut)
    n_whole = content[: cut + 1].count(b"\n")  # the newline of a whole line may be missing
    assert read_calls(folder, WORDS) == dict(list(ANSWERS.items())[:n_whole])


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_makes_no_answer_wrong(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("calls")
    segment = kept_in(folder)
    content = bytearray(segment.read_bytes())
    content[at % len(content)] ^= 1 << bit
    segment.write_bytes(content)
    found = read_calls(folder, WORDS)
    assert found.items() <= ANSWERS.items()
    assert len(found) >= len(ANSWERS) - 2, "a lost newline costs two lines"


def test_a_line_that_is_completed_while_it_is_read_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = kept_in(tmp_path)
    content, row_of = segment.read_bytes(), segments._row_of

    def complete(line: bytes) -> dict[str, Any] | None:
        segment.write_bytes(content)
        return row_of(line)

    segment.write_bytes(content[:-5])
    monkeypatch.setattr(segments, "_row_of", complete)
    reader = Calls(tmp_path, WORDS)
    reader.refresh()
    reader.refresh()
    assert reader.others == ANSWERS


WRITER = """
import sys
from pathlib import Path
from tests.tasks.storage.test_paid_calls import WORDS
from tasks.storage.paid_calls import Calls

calls = Calls(Path(sys.argv[1]), WORDS)
for number in range(500):
    calls.put({f"{sys.argv[2]} {number}": "x" * number})
"""


@pytest.mark.slow
def test_two_processes_write_at_once_and_each_answer_is_found(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, name], cwd=ROOT) for name in "ab"]
    reader = Calls(tmp_path, WORDS)
    while any(writer.poll() is None for writer in writers):
        reader.refresh()
        assert all(answer == "x" * int(key.split()[1]) for key, answer in reader.others.items())
    assert [writer.returncode for writer in writers] == [0, 0]
    reader.refresh()
    assert len(reader.others) == 1000
    assert reader.others == read_calls(tmp_path, WORDS)


def test_a_full_disk_is_named_and_spoils_no_other_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(tmp_path, WORDS)
    calls.put({"before": "1"})
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
    with pytest.raises(DiskFull, match="a word"):
        calls.put({"meanwhile": "2"})
    monkeypatch.undo()
    calls.put({"after": "3"})
    assert read_calls(tmp_path, WORDS) == {"before": "1", "after": "3"}
    assert calls.get("meanwhile") is None


def test_equal_calls_in_flight_are_sent_once_and_faults_are_not_kept(tmp_path: Path) -> None:
    calls, sent = Calls(tmp_path, WORDS), list[int]()

    async def ask() -> str:
        sent.append(len(sent))
        await asyncio.sleep(0.01)
        if len(sent) == 1:
            raise TimeoutError
        return f"answer {len(sent)}"

    async def ask_all() -> list[object]:
        return list(
            await asyncio.gather(
                *(calls.find("key", ask) for _ in range(3)), return_exceptions=True
            )
        )

    assert [type(fault) for fault in asyncio.run(ask_all())] == [TimeoutError] * 3
    assert asyncio.run(ask_all()) == asyncio.run(ask_all()) == ["answer 2"] * 3
    assert len(sent) == 2
    assert read_calls(tmp_path, WORDS) == {"key": "answer 2"}


def test_a_removed_segment_is_dropped_unless_another_one_has_the_answer(tmp_path: Path) -> None:
    first, second, reader = (Calls(tmp_path, WORDS) for _ in range(3))
    first.put({"both": "1", "first": "2"})
    second.put({"both": "1"})
    reader.refresh()
    first.discard()
    assert first.get("first") is None
    reader.refresh()
    assert reader.others == {"both": "1"}


def test_rows_of_an_older_release_are_read_beside_new_ones(tmp_path: Path) -> None:
    (tmp_path / "1-0.jsonl").write_text(
        '{"judgement_id":"old","answer_json":"1","n_calls":2}\n{"judgement_id":"torn","ans'
    )
    calls = Calls(tmp_path, JUDGEMENTS)
    calls.put({"new": Judgement(judgement_id="new", answer_json="2")})
    assert read_calls(tmp_path, JUDGEMENTS) == {
        "old": Judgement(judgement_id="old", answer_json="1", n_calls=2),
        "new": Judgement(judgement_id="new", answer_json="2"),
    }
    assert all("crc" not in row for row in read_segments(tmp_path))

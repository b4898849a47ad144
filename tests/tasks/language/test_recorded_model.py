"""Recordings: read, refused line by line, written whole, answered from."""

import asyncio
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import AnswerMissing, ConfigError, UsageError
from schemas.run import ModelIdentity
from tasks.language.recorded_model import (
    RecordedAnswer,
    RecordedModel,
    load_recording,
    write_recording,
)
from tests.tasks.language.requests import ask

ANSWERS = (
    RecordedAnswer("function/1", 1, "a = 'é'\r\n"),
    RecordedAnswer("function/1", 1, "b", sample=1),
)
GOOD = '{"problem_id": "p", "turn": 1, "sample": 0, "content": "x"}'


@pytest.mark.parametrize("name", ["r.jsonl", "deep/er/r.jsonl.gz"])
def test_what_is_written_is_what_is_answered(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert write_recording(path, ANSWERS) == 2
    first = path.read_bytes()
    assert first.startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert write_recording(path, ANSWERS) == 2
    assert path.read_bytes() == first
    assert [p.name for p in path.parent.iterdir() if p.is_file()] == [path.name]
    model = RecordedModel(ModelIdentity(provider="recorded", name="r"), load_recording(path))
    said = [asyncio.run(model.complete(ask("anything", sample=sample))) for sample in (0, 1)]
    assert [answer.content for answer in said] == ["a = 'é'\r\n", "b"]
    assert (said[0].finish_reason, said[0].latency_s, said[0].input_tokens, said[0].n_calls) == (
        "stop",
        None,
        None,
        0,
    )
    with pytest.raises(AnswerMissing, match="problem 'function/1', turn 2, sample 0"):
        asyncio.run(model.complete(ask(turn=2)))


@given(content=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives(content: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("recording") / "r.jsonl"
    write_recording(path, [RecordedAnswer("p", 1, content)])
    assert load_recording(path).answers["p", 1, 0] == content


def test_further_keys_and_blank_lines_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(
        '\n{"problem_id": "p", "turn": 1, "content": "x", "instruction_id": "base"}\r\n\n'
    )
    assert load_recording(path).answers == {("p", 1, 0): "x"}


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        '{"turn": 1, "content": "x"}',
        '{"problem_id": "", "turn": 1, "content": "x"}',
        '{"problem_id": 1, "turn": 1, "content": "x"}',
        '{"problem_id": "q", "turn": 0, "content": "x"}',
        '{"problem_id": "q", "turn": true, "content": "x"}',
        '{"problem_id": "q", "turn": "1", "content": "x"}',
        '{"problem_id": "q", "turn": 1, "sample": -1, "content": "x"}',
        '{"problem_id": "q", "turn": 1, "content": null}',
        '{"problem_id": "q", "turn": 1, "content": "x", "step": -1}',
        '{"problem_id": "q", "turn": 1, "content": "x", "calls": [{"name": "read"}]}',
        '{"problem_id": "q", "turn": 1, "content": "x", "calls": null}',
        GOOD,
        b'{"problem_id": "q", "turn": 1, "content": "\xff"}',
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str | bytes) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(
        GOOD.encode() + b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n"
    )
    with pytest.raises(ConfigError, match=r"r\.jsonl, line 2"):
        load_recording(path)


def test_files_that_are_no_recording(tmp_path: Path) -> None:
    empty, torn, fake = (
        tmp_path / "empty.jsonl",
        tmp_path / "torn.jsonl.gz",
        tmp_path / "fake.jsonl.gz",
    )
    empty.write_text("\n")
    torn.write_bytes(gzip.compress(GOOD.encode() * 50)[:-12])
    fake.write_text(GOOD)
    with pytest.raises(ConfigError, match="no answers"):
        load_recording(empty)
    for path in (torn, fake, tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            load_recording(path)


def test_a_recording_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_recording(path, ANSWERS)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="second answer"):
        write_recording(path, [*ANSWERS, ANSWERS[0]])
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match="cannot be written"):
        write_recording(path / "below-a-file.jsonl", ANSWERS)


def test_a_recording_is_read_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_recording(path, ANSWERS)
    first = load_recording(path)
    assert load_recording(path) is first
    write_recording(path, ANSWERS[:1])
    assert len(load_recording(path).answers) == 1

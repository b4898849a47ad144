"""Logs that do not fit are refused, with file and row named; nothing of them is replayed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.errors import SourceUnreadable
from tasks.benchmarks.convcode.log_files.log_folder import eval_file
from tasks.benchmarks.convcode.log_files.logs import static_dialogs
from tasks.benchmarks.convcode.settings import MOST_TURNS
from tests.tasks.benchmarks.convcode.logged import (
    EXPERT,
    NOVICE,
    PROBLEMS,
    TASKS,
    UNREPLAYED,
    Logged,
    edit,
    write_logs,
    write_results,
)

LOG = "bigcodebench_ref_CF_EF_FULL_SEF_by_gpt-4o"
"""Name of the first turn's log, without its ending."""
Spoil = Callable[[Path], object]


def append(path: Path, line: bytes) -> None:
    path.write_bytes(path.read_bytes() + line)


def first_line(path: Path) -> bytes:
    return path.read_bytes().splitlines(keepends=True)[0]


def drop_line(path: Path, line: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: line - 1] + lines[line:]))


def one(folder: Path) -> Path:
    return folder / f"{LOG}.jsonl"


def two(folder: Path) -> Path:
    return folder / f"{LOG}_ITER=2.jsonl"


def zero(folder: Path) -> Path:
    return folder / f"{LOG}_ITER=0.jsonl"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        pytest.param(
            lambda f: one(f).unlink(), rf"lacks {LOG}\.jsonl, although there are later", id="gap"
        ),
        pytest.param(
            lambda f: two(f).unlink(),
            rf"lacks {LOG}_ITER=2\.jsonl, although the logged run had these",
            id="end",
        ),
        pytest.param(
            lambda f: zero(f).unlink(),
            r"lacks the first answers of ref.*--bigcodebench-instruct--",
            id="turn 0",
        ),
        pytest.param(
            lambda f: drop_line(two(f), 2),
            r":2 is a row of task 'Task/2', but .*ITER=2\.jsonl has no row of this task\. Download",
            id="row",
        ),
        pytest.param(
            lambda f: drop_line(zero(f), 2),
            r":2 is a row of task 'Task/2', but .*ITER=0\.jsonl has no row of this task",
            id="first row",
        ),
        pytest.param(
            lambda f: [drop_line(path(f), 2) for path in (one, two)],
            r"ITER=0.* contains the first answer of task 'Task/2', but .* has no row of this task",
            id="rest",
        ),
        pytest.param(
            lambda f: edit(one(f), 2, lambda row: row.update(task_id="Task/9")),
            r"4o\.jsonl:2: task 'Task/9' is not one of",
            id="task",
        ),
        pytest.param(
            lambda f: edit(one(f), 3, lambda row: row.update(dataset_version="mbpp")),
            (
                r"4o\.jsonl:3: task 'Task/3' was logged with version 'mbpp', not "
                r"'sample'. Use --dataset-version mbpp"
            ),
            id="version",
        ),
        pytest.param(
            lambda f: edit(zero(f), 1, lambda row: row.update(row_digest="old")),
            r"ITER=0\.jsonl:1: task 'Task/1' has changed",
            id="digest",
        ),
        pytest.param(
            lambda f: write_logs(f, NOVICE, model="other"),
            r"is a log of 'ref', .* is of 'other'. .*each reference",
            id="models",
        ),
        pytest.param(
            lambda f: write_logs(f, UNREPLAYED, model="other"),
            r"is a log of 'ref', .* is of 'other'. .*each reference",
            id="unread",
        ),
        pytest.param(
            lambda f: write_logs(f, NOVICE, simulator="x"),
            r"feedback by 'x', .* feedback by 'gpt-4o'. .*each simulator",
            id="simulators",
        ),
        pytest.param(
            lambda f: write_logs(f, NOVICE, simulator=None),
            r"feedback by 'ref', .* by 'gpt-4o'",
            id="itself",
        ),
        pytest.param(
            lambda f: append(one(f), first_line(one(f))),
            r"4o\.jsonl:4: task 'Task/1' already has a row \(.*4o\.jsonl:1\)",
            id="twice",
        ),
        pytest.param(
            lambda f: (f / f"{LOG}.jsonl.gz").write_bytes(b""),
            r"4o\.jsonl\.gz holds the same turn as",
            id="packed twice",
        ),
        pytest.param(
            lambda f: edit(two(f), 1, lambda row: row.update(iteration=1)),
            r"ITER=2\.jsonl:1: iteration 1 of task 'Task/1'",
            id="early",
        ),
        pytest.param(
            lambda f: edit(two(f), 1, lambda row: row.update(iteration=6)),
            r"ITER=2\.jsonl:1: iteration 6 .*Restore the file",
            id="late",
        ),
        pytest.param(
            lambda f: edit(one(f), 2, lambda row: row.update(turns=3)),
            r"4o\.jsonl:2: turns is 3, but 2",
            id="runs",
        ),
        pytest.param(
            lambda f: edit(one(f), 2, lambda row: row.pop("user_feedback")),
            r":2: missing_field: user_feedback",
            id="field",
        ),
        pytest.param(
            lambda f: edit(one(f), 2, lambda row: row.update(solution=None)),
            r":2: wrong_type: solution",
            id="type",
        ),
        pytest.param(
            lambda f: append(one(f), b'{"task_id": '), r"4o\.jsonl:4: broken_json", id="torn"
        ),
        pytest.param(
            lambda f: edit(one(f), 1, lambda row: row.update(user_feedback=None)),
            r":1: no expert's feedback on code of",
            id="silence",
        ),
        pytest.param(
            lambda f: write_results(zero(f), dict.fromkeys(TASKS, True)),
            r":1: feedback on code .*turn 0",
            id="results",
        ),
        pytest.param(
            lambda f: eval_file(one(f)).unlink(),
            rf"{LOG}_eval_results\.json is missing",
            id="no results",
        ),
        pytest.param(
            lambda f: write_results(two(f), {"Task/1": False}),
            r"results\.json has no result of task 'Task/2'",
            id="result",
        ),
        pytest.param(
            lambda f: eval_file(one(f)).write_text("{"),
            r"eval_results\.json cannot be read as JSON",
            id="torn results",
        ),
        pytest.param(
            lambda f: eval_file(one(f)).write_text(
                json.dumps({"eval": {"Task/1": [{"status": "ok"}]}})
            ),
            r"eval_results\.json: eval\.Task/1\.0\.status",
            id="status",
        ),
        pytest.param(
            lambda f: eval_file(one(f)).write_text(json.dumps({"eval": {"Task/1": []}})),
            r"'Task/1' has 0 results",
            id="samples",
        ),
        pytest.param(
            lambda f: one(f).rename(f / "bigcodebench_ref_CF_CHEATED.jsonl"),
            r"CHEATED\.jsonl does not have the name of a log",
            id="name",
        ),
    ],
)
def test_logs_that_do_not_fit_are_refused_by_name(spoil: Spoil, told: str, tmp_path: Path) -> None:
    folder = write_logs(tmp_path)
    assert static_dialogs(PROBLEMS, folder)
    spoil(folder)
    with pytest.raises(SourceUnreadable, match=told):
        static_dialogs(PROBLEMS, folder)


def test_upstreams_logs_have_ten_turns(tmp_path: Path) -> None:
    folder = write_logs(tmp_path, turns=MOST_TURNS - 1, upstream=True)
    with pytest.raises(SourceUnreadable, match=rf"lacks {LOG}_ITER=10\.jsonl"):
        static_dialogs(PROBLEMS, folder)


def test_a_folder_without_logs_worth_replaying_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match=r"has no log \(bigcodebench_\{model\}_CF"):
        static_dialogs(PROBLEMS, tmp_path)
    write_logs(tmp_path, UNREPLAYED)
    with pytest.raises(
        SourceUnreadable,
        match=r"has no log with verbal feedback, which is required for a replay \(f_c,f_v\*, ",
    ):
        static_dialogs(PROBLEMS, tmp_path)


def test_a_novices_silence_is_no_contradiction(tmp_path: Path) -> None:
    tasks = {"Task/1": Logged(silent=(1, 2))}
    assert static_dialogs(PROBLEMS, write_logs(tmp_path, NOVICE, tasks=tasks))
    with pytest.raises(SourceUnreadable, match="no expert's feedback"):
        static_dialogs(PROBLEMS, write_logs(tmp_path / "expert", EXPERT, tasks=tasks))

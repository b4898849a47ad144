"""Hand-made logs of a reference model, in upstream's format."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.episode import ExecutionFeedback, FeedbackSetting, VerbalFeedback
from schemas.problem import Problem
from tasks.benchmarks.convcode.log_files.log_folder import LogName, eval_file
from tests.problems import simple_problem

EXPERT = FeedbackSetting(execution=ExecutionFeedback.FULL, verbal=VerbalFeedback.EXPERT)
NOVICE = FeedbackSetting(execution=ExecutionFeedback.PARTIAL, verbal=VerbalFeedback.NOVICE)
UNREPLAYED = FeedbackSetting(execution=ExecutionFeedback.FULL)


@dataclass(frozen=True)
class Logged:
    """What happened to one task."""

    solved_at: int | None = None
    silent: tuple[int, ...] = ()
    """Turns in which nothing is said of code that fails."""


TASKS: Mapping[str, Logged] = {
    "Task/1": Logged(),
    "Task/2": Logged(solved_at=1),
    "Task/3": Logged(solved_at=0),
}


def problem(task: str) -> Problem:
    """A problem of that id."""
    return simple_problem(task, f"Write {task}.", benchmark="convcode")


PROBLEMS = tuple(problem(task) for task in TASKS)


def code(task: str, turn: int) -> str:
    """The reference's code, carried on once it passes."""
    solved_at = TASKS.get(task, Logged()).solved_at
    return f"# {task}, turn {turn if solved_at is None else min(turn, solved_at)}\n"


def row(
    task: str, turn: int, turns: int | None, setting: FeedbackSetting, logged: Logged
) -> dict[str, Any]:
    """One line of a log; `turns` is None for upstream's form."""
    is_solved = logged.solved_at is not None and turn > logged.solved_at
    is_silent = turn in logged.silent
    shown = not is_solved and turn > 0
    says_more = setting.verbal is not VerbalFeedback.NONE and shown and not is_silent
    runs = setting.execution is not ExecutionFeedback.NONE and shown
    own = {"dataset_version": "sample", "row_digest": f"digest of {task}", "turns": turns}
    return {
        "task_id": task,
        "solution": code(task, turn),
        "compilation_feedback": "No syntax errors" if shown else None,
        "execution_feedback": f"TEST_CASE_1\nwrong at {turn - 1}" if runs else None,
        "user_feedback": f"Mend turn {turn - 1} of {task}." if says_more else None,
        "log": "a prompt",
        "iteration": turn if is_solved else turn + 1,
    } | ({} if turns is None else own)


def write_logs(
    folder: Path,
    setting: FeedbackSetting = EXPERT,
    *,
    turns: int = 2,
    tasks: Mapping[str, Logged] = TASKS,
    model: str = "ref",
    simulator: str | None = "gpt-4o",
    upstream: bool = False,
) -> Path:
    """Logs and results of one setting; upstream's keep their first answers in BigCodeBench's own
    file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = LogName(
        model, setting, simulator if setting.verbal is not VerbalFeedback.NONE else None, 1
    )
    for turn in range(turns + 1):
        path = folder / name.at(turn).file
        if upstream and turn == 0:
            path = folder / f"{model}--bigcodebench-instruct--vllm-0-1-sanitized-calibrated.jsonl"
        rows = [
            row(task, turn, None if upstream else turns, setting, logged)
            for task, logged in tasks.items()
        ]
        if upstream and turn == 0:
            rows = [{"task_id": line["task_id"], "solution": line["solution"]} for line in rows]
        path.write_text("".join(json.dumps(line) + "\n" for line in rows), encoding="utf-8")
        passed = {
            task: logged.solved_at is not None and turn >= logged.solved_at
            for task, logged in tasks.items()
        }
        write_results(path, passed)
    return folder


def write_results(log: Path, passed: Mapping[str, bool]) -> None:
    """The test results beside a log."""
    results = {
        task: [
            {"task_id": task, "solution": "…", "status": "pass" if ok else "fail", "details": {}}
        ]
        for task, ok in passed.items()
    }
    eval_file(log).write_text(
        json.dumps({"date": "2026-01-01 00:00", "eval": results}), encoding="utf-8"
    )


def edit(log: Path, line: int, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change one line (1-based) of a log."""
    rows = [json.loads(text) for text in log.read_text(encoding="utf-8").splitlines()]
    change(rows[line - 1])
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

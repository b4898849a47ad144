"""Export of live runs as ConvCodeBench's log files in upstream's format (section 3).

Each turn has one log, and a file with the test results of the log's code.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from schemas.dialog import Role
from schemas.episode import (
    FEEDBACK_SETTINGS,
    Episode,
    ExecutionFeedback,
    Feedback,
    FeedbackSetting,
    Step,
    StopReason,
    VerbalFeedback,
)
from schemas.errors import UsageError
from schemas.verdict import Outcome, ProgramVerdict
from tasks.benchmarks.convcode.log_files.log_folder import (
    EVAL_SUFFIX,
    LogName,
    eval_file,
    file_model_name,
    parse_log_name,
)
from tasks.benchmarks.convcode.settings import (
    ALL_PASS,
    LIVE,
    NO_SYNTAX_ERRORS,
    WHOLE_PROGRAM,
    feedback_turns,
)
from tasks.benchmarks.convcode.stage import code_of
from tasks.benchmarks.program_runs import python_program
from tasks.benchmarks.results import Build, FinishedRun

_NAMED = 10
"""Number of omitted tasks that a report lists by name."""
_STATUS = {Outcome.PASSED: "pass", Outcome.TIMEOUT: "timeout"}


@dataclass(frozen=True)
class _Turn:
    """Code of a task after a turn, and the feedback that led to it."""

    code: str
    program: ProgramVerdict
    feedback: Feedback
    answer: str | None
    """Answer of the model. None if the turn had no request and the earlier code is reused."""


def write_logs(runs: Sequence[FinishedRun], folder: Path) -> tuple[str, ...]:
    """Write the logs of one model's live runs.

    Only the first sample is logged. A task whose dialogue ended early (a fault or a missing answer)
    has no code to continue with, so it is left out of that setting's logs.

    Args:
        runs: Live runs of one model.
        folder: Destination folder.

    Returns:
        A line for each run: setting, number of files and tasks, and omitted tasks.

    Raises:
        UsageError: The runs differ in model, simulator or dataset version.
        ConfigError: A model's name cannot be part of a file name.
    """
    _require_one("model", {run.run_id: run.spec.label for run in runs})
    _require_one("dataset version", {run.run_id: run.spec.dataset_version for run in runs})
    verbal_runs = (run for run in runs if LIVE[run.spec.setting].verbal is not VerbalFeedback.NONE)
    _require_one(
        "simulator",
        {run.run_id: run.spec.simulator.label for run in verbal_runs if run.spec.simulator},
    )
    return tuple(_write_run(run, folder) for run in runs)


def owns(name: str) -> bool:
    """Return True if a file with that name is a log, or the test results of one."""
    return (
        parse_log_name(
            name.removesuffix(EVAL_SUFFIX) + ".jsonl" if name.endswith(EVAL_SUFFIX) else name
        )
        is not None
    )


BUILD = Build(
    help="log files of a model's live runs, for replay with this model as the reference",
    settings=tuple(name for name, feedback in LIVE.items() if feedback in FEEDBACK_SETTINGS),
    write=write_logs,
    owns=owns,
)


def _require_one(what: str, values: dict[str, str]) -> None:
    if len(set(values.values())) > 1:
        listed = ", ".join(f"{run_id[:12]} {value}" for run_id, value in values.items())
        raise UsageError(
            f"logs need runs of a single {what}, but these differ: {listed}. "
            "Select runs with --run RUN (repeatable)"
        )


def _write_run(run: FinishedRun, folder: Path) -> str:
    setting, n_turns = (
        LIVE[run.spec.setting],
        feedback_turns(run.spec.setting, dict(run.spec.episode_options)),
    )
    name = log_name(run)
    episodes = sorted(
        (e for e in run.episodes() if e.sample == 0), key=lambda e: _natural(e.problem_id)
    )
    complete = [episode for episode in episodes if _is_complete(episode)]
    problems, options = run.problems(), dict(run.spec.episode_options + run.spec.scoring_options)

    def code(episode: Episode) -> Callable[[str], str]:
        problem = problems.get(episode.problem_id)
        if problem is None:
            return lambda answer: python_program(answer, options, "", ()).code
        return partial(code_of, problem, options)

    turns = {
        episode.problem_id: _turns(episode, setting, n_turns, code(episode)) for episode in complete
    }
    for turn in range(n_turns + 1):
        log = folder / name.at(turn).file
        rows = (
            _row(episode, turn, n_turns, turns[episode.problem_id][turn]) for episode in complete
        )
        log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        results = {task: [_result(task, task_turns[turn])] for task, task_turns in turns.items()}
        date = run.finished_at[:16].replace("T", " ")
        eval_file(log).write_text(json.dumps({"date": date, "eval": results}), encoding="utf-8")
    omitted = [episode.problem_id for episode in episodes if episode.problem_id not in turns]
    return (
        f"{run.spec.setting}: {n_turns + 1} logs of {len(complete)} tasks, "
        f"from run {run.run_id[:12]}{_without(omitted)}"
    )


def _without(omitted: Sequence[str]) -> str:
    if not omitted:
        return ""
    more = f" and {len(omitted) - _NAMED} more" if len(omitted) > _NAMED else ""
    return f"; omitted, since their dialogues ended early: {', '.join(omitted[:_NAMED])}{more}"


def log_name(run: FinishedRun) -> LogName:
    """Return the parts of a run's log names.

    As upstream does, omit a simulator equal to the model.
    """
    setting, model = LIVE[run.spec.setting], file_model_name(run.spec.subject.name)
    simulator = (
        file_model_name(run.spec.simulator.name)
        if run.spec.simulator and setting.verbal is not VerbalFeedback.NONE
        else None
    )
    return LogName(model, setting, None if simulator == model else simulator, 1)


def _natural(task: str) -> tuple[object, ...]:
    """Return a sort key that orders `X/10` after `X/9`."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", task))


def _is_complete(episode: Episode) -> bool:
    answers = [step for step in episode.messages if step.role is Role.ASSISTANT]
    return (
        episode.stop_reason is StopReason.FINISHED
        and bool(answers)
        and all(step.program for step in answers)
    )


def _turns(
    episode: Episode, setting: FeedbackSetting, n_turns: int, code: Callable[[str], str]
) -> tuple[_Turn, ...]:
    """Return turns 0 to `n_turns`. After the dialogue's end, its last code is repeated."""
    feedback_by_turn = {
        step.turn - 1: step.feedback for step in episode.messages if step.role is Role.USER
    }
    turns = [
        _answered(step, feedback_by_turn.get(step.turn - 1), code)
        for step in episode.messages
        if step.role is Role.ASSISTANT
    ]
    last = turns[-1]
    repeated = _Turn(last.code, last.program, _carried_feedback(last.program, setting), None)
    return (*turns, *[repeated] * (n_turns + 1 - len(turns)))


def _answered(step: Step, feedback: Feedback | None, code: Callable[[str], str]) -> _Turn:
    assert step.program is not None  # see `_is_complete`
    return _Turn(code(step.content), step.program, feedback or Feedback(), step.content)


def _carried_feedback(program: ProgramVerdict, setting: FeedbackSetting) -> Feedback:
    """Return feedback on reused code: none if it passed, else that no error is shown."""
    if program.outcome is Outcome.PASSED:
        return Feedback()
    return Feedback(
        compilation=NO_SYNTAX_ERRORS,
        execution=None if setting.execution is ExecutionFeedback.NONE else ALL_PASS,
        verbal=None,
    )


def _row(episode: Episode, turn: int, n_turns: int, turn_result: _Turn) -> dict[str, Any]:
    return {
        "task_id": episode.problem_id,
        "solution": turn_result.code,
        "compilation_feedback": turn_result.feedback.compilation,
        "execution_feedback": turn_result.feedback.execution,
        "user_feedback": turn_result.feedback.verbal,
        "log": turn_result.answer,
        "iteration": turn,
        "dataset_version": episode.dataset_version,
        "row_digest": episode.row_digest,
        "turns": n_turns,
    }


def _result(task: str, turn_result: _Turn) -> dict[str, Any]:
    program = turn_result.program
    details = dict(_details(program)) if program.outcome is not Outcome.PASSED else {}
    status = _STATUS.get(program.outcome, "fail")
    return {"task_id": task, "solution": turn_result.code, "status": status, "details": details}


def _details(program: ProgramVerdict) -> Iterator[tuple[str, str]]:
    """Yield (test, failure), or one failure of the program if no single test caused it."""
    failing = [case for case in program.cases if case.outcome is not Outcome.PASSED]
    if program.module_error is not None or not failing:
        yield WHOLE_PROGRAM, program.module_error or program.detail
        return
    short = _short_names(case.name for case in program.cases)
    yield from ((short[case.name], case.detail) for case in failing)


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Return method names by full name, or the full name if several classes have the method."""
    full = tuple(names)
    methods = [name.rpartition(".")[2] for name in full]
    return {
        name: method if methods.count(method) == 1 else name
        for name, method in zip(full, methods, strict=True)
    }

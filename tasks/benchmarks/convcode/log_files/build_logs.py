"""Live runs as ConvCodeBench's log files, in upstream's format: one log a turn, its test results beside it (paper section 3)."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from schemas.dialog import Role
from schemas.episode import Episode, Step, StopReason
from schemas.errors import UsageError
from schemas.feedback import (
    FEEDBACK_SETTINGS,
    ExecutionFeedback,
    Feedback,
    FeedbackSetting,
    VerbalFeedback,
)
from schemas.verdict import Outcome, ProgramVerdict
from tasks.benchmarks.convcode.feedback_texts import ALL_PASS, NO_SYNTAX_ERRORS, WHOLE_PROGRAM
from tasks.benchmarks.convcode.log_files.log_names import (
    EVAL_SUFFIX,
    LogName,
    eval_file,
    parse_log_name,
    spelt,
)
from tasks.benchmarks.convcode.programs import code_of
from tasks.benchmarks.convcode.settings import LIVE, feedback_turns
from tasks.benchmarks.extraction import python_program
from tasks.benchmarks.results import Build, FinishedRun

_NAMED = 10
"""Tasks that were left out and are told by name."""
_STATUS = {Outcome.PASSED: "pass", Outcome.TIMEOUT: "timeout"}


@dataclass(frozen=True)
class _Turn:
    """A task's code after a turn, and the feedback that led to it."""

    code: str
    program: ProgramVerdict
    feedback: Feedback
    answer: str | None
    """The model's own answer; None where it was not asked and the earlier code is carried on."""


def write_logs(runs: Sequence[FinishedRun], folder: Path) -> tuple[str, ...]:
    """Write the logs of one model's live runs.

    The first sample is logged. A task whose dialogue was cut short (a fault, an answer that never came) has no code to go on with
    and is left out of that setting's logs.

    Returns:
        A line for each run: its setting, its numbers of files and tasks, and the tasks left out.

    Raises:
        UsageError: runs of different models, simulators or dataset versions.
        ConfigError: names of models that file names cannot hold.
    """
    _require_one("model", {run.run_id: run.spec.label for run in runs})
    _require_one("dataset version", {run.run_id: run.spec.dataset_version for run in runs})
    spoken = (run for run in runs if LIVE[run.spec.setting].verbal is not VerbalFeedback.NONE)
    _require_one(
        "simulator", {run.run_id: run.spec.simulator.label for run in spoken if run.spec.simulator}
    )
    return tuple(_write_run(run, folder) for run in runs)


def owns(name: str) -> bool:
    """Whether a file of that name is a log, or the test results of one."""
    return (
        parse_log_name(
            name.removesuffix(EVAL_SUFFIX) + ".jsonl" if name.endswith(EVAL_SUFFIX) else name
        )
        is not None
    )


BUILD = Build(
    help="log files of a model's live runs, to be replayed as a reference model's",
    settings=tuple(name for name, feedback in LIVE.items() if feedback in FEEDBACK_SETTINGS),
    write=write_logs,
    owns=owns,
)


def _require_one(what: str, values: dict[str, str]) -> None:
    if len(set(values.values())) > 1:
        listed = ", ".join(f"{run_id[:12]} {value}" for run_id, value in values.items())
        raise UsageError(
            f"logs are of one {what}, the runs are of several: {listed}. Name the runs by --run RUN, repeated"
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
    ended = [episode for episode in episodes if _is_whole(episode)]
    problems, options = run.problems(), dict(run.spec.episode_options + run.spec.scoring_options)

    def code(episode: Episode) -> Callable[[str], str]:
        problem = problems.get(episode.problem_id)
        if problem is None:
            return lambda answer: python_program(answer, options, "", ()).code
        return partial(code_of, problem, options)

    turns = {
        episode.problem_id: _turns(episode, setting, n_turns, code(episode)) for episode in ended
    }
    for turn in range(n_turns + 1):
        log = folder / name.at(turn).file
        rows = (_row(episode, turn, n_turns, turns[episode.problem_id][turn]) for episode in ended)
        log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        results = {task: [_result(task, of_task[turn])] for task, of_task in turns.items()}
        date = run.finished_at[:16].replace("T", " ")
        eval_file(log).write_text(json.dumps({"date": date, "eval": results}), encoding="utf-8")
    left_out = [episode.problem_id for episode in episodes if episode.problem_id not in turns]
    return f"{run.spec.setting}: {n_turns + 1} logs of {len(ended)} tasks, from run {run.run_id[:12]}{_without(left_out)}"


def _without(left_out: Sequence[str]) -> str:
    if not left_out:
        return ""
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    return f"; left out, since their dialogues were cut short: {', '.join(left_out[:_NAMED])}{more}"


def log_name(run: FinishedRun) -> LogName:
    """Parts of the names of a run's logs. Upstream leaves out a simulator that is the model itself."""
    setting, model = LIVE[run.spec.setting], spelt(run.spec.subject.name)
    simulator = (
        spelt(run.spec.simulator.name)
        if run.spec.simulator and setting.verbal is not VerbalFeedback.NONE
        else None
    )
    return LogName(model, setting, None if simulator == model else simulator, 1)


def _natural(task: str) -> tuple[object, ...]:
    """Sorts `X/10` behind `X/9`."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", task))


def _is_whole(episode: Episode) -> bool:
    answers = [step for step in episode.messages if step.role is Role.ASSISTANT]
    return (
        episode.stop_reason is StopReason.FINISHED
        and bool(answers)
        and all(step.program for step in answers)
    )


def _turns(
    episode: Episode, setting: FeedbackSetting, n_turns: int, code: Callable[[str], str]
) -> tuple[_Turn, ...]:
    """Turns 0 to `n_turns`; after the dialogue's end its last code is carried on."""
    said = {step.turn - 1: step.feedback for step in episode.messages if step.role is Role.USER}
    turns = [
        _answered(step, said.get(step.turn - 1), code)
        for step in episode.messages
        if step.role is Role.ASSISTANT
    ]
    last = turns[-1]
    carried = _Turn(last.code, last.program, _carried_feedback(last.program, setting), None)
    return (*turns, *[carried] * (n_turns + 1 - len(turns)))


def _answered(step: Step, feedback: Feedback | None, code: Callable[[str], str]) -> _Turn:
    assert step.program is not None  # `_is_whole`
    return _Turn(code(step.content), step.program, feedback or Feedback(), step.content)


def _carried_feedback(program: ProgramVerdict, setting: FeedbackSetting) -> Feedback:
    """Feedback on code that is carried on: none where it passed, else the statement that no error is shown."""
    if program.outcome is Outcome.PASSED:
        return Feedback()
    return Feedback(
        compilation=NO_SYNTAX_ERRORS,
        execution=None if setting.execution is ExecutionFeedback.NONE else ALL_PASS,
        verbal=None,
    )


def _row(episode: Episode, turn: int, n_turns: int, of_turn: _Turn) -> dict[str, Any]:
    return {
        "task_id": episode.problem_id,
        "solution": of_turn.code,
        "compilation_feedback": of_turn.feedback.compilation,
        "execution_feedback": of_turn.feedback.execution,
        "user_feedback": of_turn.feedback.verbal,
        "log": of_turn.answer,
        "iteration": turn,
        "dataset_version": episode.dataset_version,
        "row_digest": episode.row_digest,
        "turns": n_turns,
    }


def _result(task: str, of_turn: _Turn) -> dict[str, Any]:
    program = of_turn.program
    details = dict(_details(program)) if program.outcome is not Outcome.PASSED else {}
    status = _STATUS.get(program.outcome, "fail")
    return {"task_id": task, "solution": of_turn.code, "status": status, "details": details}


def _details(program: ProgramVerdict) -> Iterator[tuple[str, str]]:
    """Test -> its failure, or the whole program's failure where no single test caused it."""
    failing = [case for case in program.cases if case.outcome is not Outcome.PASSED]
    if program.module_error is not None or not failing:
        yield WHOLE_PROGRAM, program.module_error or program.detail
        return
    short = _short_names(case.name for case in program.cases)
    yield from ((short[case.name], case.detail) for case in failing)


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Method names, where each is one class's only."""
    full = tuple(names)
    methods = [name.rpartition(".")[2] for name in full]
    return {
        name: method if methods.count(method) == 1 else name
        for name, method in zip(full, methods, strict=True)
    }

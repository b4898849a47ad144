"""Exports of judgements: answers of a run's judges, and sheets of dialogues for people to rate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.cli.exports.stored_run import StoredRun
from schemas.content_id import content_id
from schemas.dialog import Dialog
from schemas.episode import Episode, StopReason, by_episode
from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.problem import Problem
from schemas.verdict import JudgeVerdict
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.registry import BENCHMARKS
from tasks.judging.ratings import SHEET_VALUE
from tasks.judging.rubric import JudgeRun, Rubric, scales_of
from tasks.language.recorded_model import RecordedAnswer, write_recording
from tasks.storage.home import Home
from tasks.storage.run_rows import read_verdicts
from tasks.storage.staged_rows import context_of
from warehouse.connect import Rows

MOST_DIALOGUES = 200
"""Default number of dialogues of a sheet.

Source: Talk2Code, "Subjective Evaluation": three experts rate 200 randomly drawn dialogues.
"""


def export_judgements(home: Home, run_id: str, out: Path) -> int:
    """Write the judges' answers of a run as a recording, and return their number.

    A missing judgement has no line. It is also missing in a run that uses the recording as judge.

    Raises:
        UsageError: the run does not exist, or has no judgements.
    """
    run = StoredRun.find(home, run_id)
    record, episodes = run.record, run.episodes()
    answers = {
        (row.rubric, episodes[row.episode_id].dialog_id, row.turn, row.sample): row.raw
        or row.answer_json
        or ""
        for row in run.lake.read("judge_verdicts", JudgeVerdict, **run.keys)
        if row.episode_id in episodes and row.unscored_reason not in ("infra", "judge_silent")
    }
    if not answers:
        raise UsageError(f"run {record.run_id} has no judgements. Repeat the run with --judge SPEC")

    def lines() -> Iterator[RecordedAnswer]:
        for (rubric, dialog_id, turn, sample), content in sorted(answers.items()):
            yield RecordedAnswer(
                dialog_id, turn, content, sample, rubric=rubric, benchmark=record.benchmark
            )

    return write_recording(out, lines())


@dataclass(frozen=True)
class Draw:
    """Random draw of the dialogues that people rate, and the rubric for their ratings."""

    seed: int
    limit: int
    rubric: str | None
    """Name of the rubric. None: the only rubric that rates whole dialogues by numbers."""


def rating_sheet(home: Home, run_ids: Sequence[str], draw: Draw) -> Rows:
    """Return a sheet of dialogues drawn from the runs.

    Raters fill in `rater` and the values, and `parley import ratings` reads the sheet. The draw
    depends only on the seed and the dialogues, so every rater gets the same sheet. The last column
    holds the judge's prompt.

    Raises:
        UsageError: a run does not exist, the runs have several benchmarks, or no dialogue is
            finished.
        ConfigError: the benchmark has no rubrics, or several and `draw.rubric` is None.
        UnknownName: the benchmark has no such rubric.
    """
    runs = [StoredRun.find(home, run_id) for run_id in run_ids]
    if len({run.record.benchmark for run in runs}) != 1:
        raise UsageError(
            "a rating sheet needs runs of one benchmark. Pass such runs with --run RUN"
        )
    rubric = _rubric(runs[0].record.benchmark, draw.rubric)
    by_id = {dialogue.episode.episode_id: dialogue for run in runs for dialogue in _dialogues(run)}
    order = sorted(by_id, key=lambda episode_id: content_id([draw.seed, episode_id]))
    drawn = [by_id[episode_id] for episode_id in order[: draw.limit]]
    if not drawn:
        raise UsageError(
            f"{', '.join(run_ids)}: no dialogue is finished, so there is nothing to rate. `parley"
            " list runs` shows each run's status"
        )
    dimensions = tuple(scales_of({rubric.name: rubric})[rubric.name])
    values = (f"{SHEET_VALUE}{name}" for name in dimensions)
    columns = ("episode_id", "turn", "rubric", "rater", *values, "dialogue_id", "shown")
    empty = (None,) * (1 + len(dimensions))
    rows = [
        (
            dialogue.episode.episode_id,
            run.turn,
            rubric.name,
            *empty,
            dialogue.dialog.dialog_id,
            run.messages[-1].content,
        )
        for dialogue in drawn
        for run in dialogue.judge_runs(rubric)
    ]
    return columns, rows


@dataclass(frozen=True)
class _Dialogue:
    """Dialogue with everything that a judge needs to rate it."""

    run: StoredRun
    problem: Problem
    dialog: Dialog
    episode: Episode

    def judge_runs(self, rubric: Rubric) -> Sequence[JudgeRun]:
        """Return the judgements that the rubric requires for this dialogue."""
        run = self.run
        benchmark = BENCHMARKS.load(run.record.benchmark)
        judging = benchmark.judging
        assert judging is not None
        verdicts = by_episode(read_verdicts(run.lake, **run.keys)) if rubric.reads_verdicts else {}
        request = JudgeRequest(
            rubric=rubric.name,
            problem=self.problem,
            dialog=self.dialog,
            episode=self.episode,
            options=benchmark.options_of(run.spec),
            context=context_of(run.lake, self.dialog),
            verdicts=verdicts.get(self.episode.episode_id, ()),
        )
        return judging.judge_runs(request)


def _rubric(benchmark: str, name: str | None) -> Rubric:
    judging = BENCHMARKS.load(benchmark).judging
    rubrics = judging.rubrics if judging is not None else {}
    if not rubrics:
        raise ConfigError(f"benchmark {benchmark} has no rubrics, so its dialogues cannot be rated")
    if name is not None and name not in rubrics:
        raise UnknownName("rubric", name, rubrics, of=benchmark)
    whole = [rubric for rubric in rubrics.values() if rubric.scope == "dialogue" and rubric.ranges]
    if name is None and len(whole) != 1:
        raise ConfigError(
            f"benchmark {benchmark} has several rubrics. Choose one with --rubric:"
            f" {', '.join(sorted(rubrics))}"
        )
    return whole[0] if name is None else rubrics[name]


def _dialogues(run: StoredRun) -> Iterator[_Dialogue]:
    """Yield the run's finished dialogues."""
    problems = {(problem.problem_id, problem.row_digest): problem for problem in run.problems()}
    dialogs = {dialog.row_digest: dialog for dialog in run.dialogs()}
    for episode in run.episodes().values():
        dialog = dialogs[episode.row_digest]
        problem = problems[dialog.problem_id, dialog.problem_digest]
        if episode.stop_reason not in (StopReason.INFRA, StopReason.NOT_ASKED):
            yield _Dialogue(run, problem, dialog, episode)

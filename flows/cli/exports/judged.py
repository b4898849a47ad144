"""Exports of judgements: answers of a run's judges, and sheets of dialogues for people to rate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Dialog
from schemas.episode import Episode, StopReason
from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.lake.records import RunEpisode, RunRecord
from schemas.problem import Problem
from schemas.run import RunSpec
from schemas.verdict import JudgeVerdict
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.registry import BENCHMARKS
from tasks.driver.judging import by_episode
from tasks.judging.rating_file import SHEET_VALUE
from tasks.judging.rubric import JudgeRun, Rubric, scales_of
from tasks.language.recorded_model import RecordedAnswer, write_recording
from tasks.planning.why_rerun import find_run
from tasks.storage.audited import read_verdicts
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tasks.storage.pending import read_episodes
from tasks.storage.staged_rows import context_of
from warehouse.connect import Rows

JUDGEMENTS, RATING_SHEET = "judgements", "rating-sheet"
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
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    keys = {"benchmark": record.benchmark, "model": record.model, "run_id": record.run_id}
    episodes = read_episodes(
        lake,
        record.benchmark,
        record.model,
        [m.episode_id for m in lake.read("run_episodes", RunEpisode, **keys)],
    )
    answers = {
        (row.rubric, episodes[row.episode_id].dialog_id, row.turn, row.sample): row.raw
        or row.answer_json
        or ""
        for row in lake.read("judge_verdicts", JudgeVerdict, **keys)
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

    seed: int = 0
    limit: int = MOST_DIALOGUES
    rubric: str | None = None
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
    lake = Lake(home.lake)
    records = [find_run(lake, run_id) for run_id in run_ids]
    if len({record.benchmark for record in records}) != 1:
        raise UsageError(
            "a rating sheet needs runs of one benchmark. Pass such runs with --run RUN"
        )
    rubric = _rubric(records[0].benchmark, draw.rubric)
    drawn = sorted(
        {
            dialogue.episode.episode_id: dialogue
            for record in records
            for dialogue in _dialogues(lake, record)
        }.values(),
        key=lambda dialogue: content_id([draw.seed, dialogue.episode.episode_id]),
    )[: draw.limit]
    if not drawn:
        raise UsageError(
            f"{', '.join(run_ids)}: no dialogue is finished, so there is nothing to rate. `parley"
            " list runs` shows each run's status"
        )
    dimensions = tuple(scales_of({rubric.name: rubric})[rubric.name])
    columns = (
        "episode_id",
        "turn",
        "rubric",
        "rater",
        *(f"{SHEET_VALUE}{name}" for name in dimensions),
        "dialogue_id",
        "shown",
    )
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

    lake: Lake
    spec: RunSpec
    keys: Mapping[str, str]
    problem: Problem
    dialog: Dialog
    episode: Episode

    def judge_runs(self, rubric: Rubric) -> Sequence[JudgeRun]:
        """Return the judgements that the rubric requires for this dialogue."""
        benchmark = BENCHMARKS.load(self.spec.benchmark)
        judging = benchmark.judging
        assert judging is not None
        verdicts = (
            by_episode(read_verdicts(self.lake, **self.keys)) if rubric.reads_verdicts else {}
        )
        request = JudgeRequest(
            rubric=rubric.name,
            problem=self.problem,
            dialog=self.dialog,
            episode=self.episode,
            options=benchmark.options_of(self.spec),
            context=context_of(self.lake, self.dialog),
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


def _dialogues(lake: Lake, record: RunRecord) -> Iterator[_Dialogue]:
    """Yield the run's finished dialogues."""
    keys = {"benchmark": record.benchmark, "model": record.model, "run_id": record.run_id}
    spec = RunSpec.model_validate_json(record.spec_json)
    ids = [member.episode_id for member in lake.read("run_episodes", RunEpisode, **keys)]
    dataset_keys = {"benchmark": record.benchmark, "dataset_version": record.dataset_version}
    problems = {
        (problem.problem_id, problem.row_digest): problem
        for problem in lake.read("problems", Problem, **dataset_keys)
    }
    dialogs = {dialog.row_digest: dialog for dialog in lake.read("dialogs", Dialog, **dataset_keys)}
    for episode in read_episodes(lake, record.benchmark, record.model, ids).values():
        dialog = dialogs[episode.row_digest]
        problem = problems[dialog.problem_id, dialog.problem_digest]
        if episode.stop_reason not in (StopReason.INFRA, StopReason.NOT_ASKED):
            yield _Dialogue(lake, spec, keys, problem, dialog, episode)

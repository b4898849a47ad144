"""Finished or unfinished runs in the lake: the rows that belong to them, and builds from them.

A build needs no model calls. It writes files such as logs to replay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.errors import UnknownName, UsageError
from schemas.lake.records import RunEpisode, RunRecord
from schemas.problem import Problem
from schemas.run import RunSpec
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import builds
from tasks.benchmarks.results import Build, FinishedRun
from tasks.planning.why_rerun import find_run
from tasks.storage.home import Home
from tasks.storage.new_folder import new_folder
from tasks.storage.parquet_store import Lake, run_keys
from tasks.storage.run_rows import read_episodes


@dataclass(frozen=True)
class StoredRun:
    """Run in the lake. Each method reads its rows anew."""

    lake: Lake
    record: RunRecord

    @classmethod
    def find(cls, home: Home, run_id: str) -> "StoredRun":
        """Return the run with this id, or with an id that begins with it.

        Raises:
            UsageError: the id of no run, or of several runs, begins with `run_id`.
        """
        lake = Lake(home.lake)
        return cls(lake, find_run(lake, run_id))

    @property
    def keys(self) -> dict[str, str]:
        """Return the columns by which the tables of runs are partitioned, with their values."""
        return run_keys(self.record)

    @property
    def spec(self) -> RunSpec:
        """Return the run's spec."""
        return RunSpec.model_validate_json(self.record.spec_json)

    def require_complete(self) -> None:
        """Check that the run is not left incomplete.

        Raises:
            UsageError: the run is incomplete. The message names the remedy.
        """
        if self.record.status == "incomplete":
            raise UsageError(
                f"run {self.record.run_id} is not finished. Resume it with its command, then"
                " export it"
            )

    def members(self) -> list[RunEpisode]:
        """Return the run's episodes as rows of `run_episodes`."""
        return self.lake.read("run_episodes", RunEpisode, **self.keys)

    def episodes(self) -> dict[str, Episode]:
        """Return the run's episodes that exist, by id."""
        ids = [member.episode_id for member in self.members()]
        return read_episodes(self.lake, self.record.benchmark, self.record.model, ids)

    def dialogs(self) -> list[Dialog]:
        """Return the dialogs of the run's dataset."""
        return self.lake.read("dialogs", Dialog, **self._dataset_keys)

    def problems(self) -> list[Problem]:
        """Return the problems of the run's dataset."""
        return self.lake.read("problems", Problem, **self._dataset_keys)

    @property
    def _dataset_keys(self) -> dict[str, str]:
        return {"benchmark": self.record.benchmark, "dataset_version": self.record.dataset_version}


def build(
    home: Home, name: str, run_ids: Sequence[str], model: str | None, out: Path, *, replace: bool
) -> tuple[str, ...]:
    """Write the files of a build from finished runs.

    Args:
        home: Parley's home.
        name: name of the build.
        run_ids: runs to build from. Empty: the latest finished run of each setting of `model`.
        model: a model as `parley list models` shows it, with or without its provider.
        out: the folder to write.
        replace: replace the files of an earlier build.

    Returns:
        Lines that describe the files.

    Raises:
        UsageError: no build has this name, a run is not finished, or `out` is not empty.
    """
    by_name = builds()
    if name not in by_name:
        raise UnknownName("build", name, sorted(by_name), "`parley list builds` shows them")
    benchmark, plan = by_name[name]
    if bool(run_ids) == bool(model):
        raise UsageError(
            f"parley build {name} needs finished runs: pass either --run RUN or --model MODEL"
        )
    lake = Lake(home.lake)
    records = (
        _selected(lake, benchmark, plan, run_ids)
        if run_ids
        else _latest(lake, benchmark, plan, model or "")
    )
    with new_folder(out.resolve(), lambda path: plan.owns(path.name), replace=replace) as folder:
        runs = [_finished_run(StoredRun(lake, record)) for record in records]
        return tuple(plan.write(runs, folder))


def _selected(
    lake: Lake, benchmark: Benchmark, plan: Build, run_ids: Sequence[str]
) -> list[RunRecord]:
    records: dict[str, RunRecord] = {}
    for record in (find_run(lake, run_id) for run_id in run_ids):
        if record.setting not in _full_settings(benchmark, plan):
            wanted = ", ".join(_full_settings(benchmark, plan))
            raise UsageError(
                f"run {record.run_id} has setting {record.setting}, but this build needs {wanted}"
            )
        if record.status != "finished":
            raise UsageError(
                f"run {record.run_id} is {record.status}, not finished. Resume it with `parley"
                " run` first"
            )
        other = records.setdefault(record.setting, record)
        if other.run_id != record.run_id:
            raise UsageError(
                f"runs {other.run_id} and {record.run_id} both have setting {record.setting}."
                " Pass only one of them"
            )
    return list(records.values())


def _latest(lake: Lake, benchmark: Benchmark, plan: Build, model: str) -> list[RunRecord]:
    settings = _full_settings(benchmark, plan)
    rows = [
        row
        for row in lake.read("runs", RunRecord, benchmark=benchmark.name)
        if row.setting in settings
    ]
    models = {row.model for row in rows if model in (row.model, row.model.partition(":")[2])}
    if len(models) > 1:
        raise UsageError(
            f"{model!r} matches several models: {', '.join(sorted(models))}. Pass a full name"
        )
    of_model = [row for row in rows if row.model in models]
    if not of_model:
        raise UnknownName(
            f"model with runs of {benchmark.name}", model, sorted({row.model for row in rows})
        )
    latest: dict[str, RunRecord] = {}
    for row in sorted(
        (row for row in of_model if row.status == "finished"), key=lambda row: row.finished_at
    ):
        latest[row.setting] = row
    if not latest:
        raise UsageError(
            f"{model} has no finished run"
            f" ({', '.join(f'{row.run_id}: {row.status}' for row in of_model)})"
        )
    return [latest[setting] for setting in settings if setting in latest]


def _full_settings(benchmark: Benchmark, plan: Build) -> tuple[str, ...]:
    """Return the build's settings as `BENCHMARK.SETTING`, the form in run records."""
    return tuple(f"{benchmark.name}.{setting}" for setting in plan.settings)


def _finished_run(run: StoredRun) -> FinishedRun:
    return FinishedRun(
        run.record.run_id,
        run.spec,
        run.record.finished_at,
        lambda: list(run.episodes().values()),
        lambda: {problem.problem_id: problem for problem in run.problems()},
    )

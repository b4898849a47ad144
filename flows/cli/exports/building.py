"""Builds a benchmark's files from finished runs."""

from collections.abc import Sequence
from pathlib import Path

from schemas.episode import Episode
from schemas.errors import UnknownName, UsageError
from schemas.lake.records import RunEpisode, RunRecord
from schemas.problem import Problem
from schemas.run import RunSpec
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.known_builds import builds
from tasks.benchmarks.results import Build, FinishedRun
from tasks.planning.known_runs import find_run
from tasks.storage.home import Home
from tasks.storage.new_folder import new_folder
from tasks.storage.owed import read_episodes
from tasks.storage.parquet_store import Lake


def build(
    home: Home, what: str, run_ids: Sequence[str], model: str | None, out: Path, *, replace: bool
) -> tuple[str, ...]:
    """Make the files of `what` from the named runs, or from the latest finished run of each setting of a model.

    Args:
        model: as `parley list models` names it, or without its provider.
        replace: put the new files in the place of an earlier build's.

    Returns:
        Lines about the files.

    Raises:
        UsageError: no build has this name, a run is not finished, or `out` holds files already.
    """
    known = builds()
    if what not in known:
        raise UnknownName("build", what, sorted(known), "`parley list builds` shows them")
    benchmark, made = known[what]
    if bool(run_ids) == bool(model):
        raise UsageError(
            f"parley build {what} is made from runs: name them by --run RUN, or their model by --model MODEL"
        )
    lake = Lake(home.lake)
    records = (
        _named(lake, benchmark, made, run_ids)
        if run_ids
        else _latest(lake, benchmark, made, model or "")
    )
    with new_folder(out.resolve(), lambda path: made.owns(path.name), replace=replace) as folder:
        return tuple(made.write([_finished_run(lake, record) for record in records], folder))


def _named(
    lake: Lake, benchmark: Benchmark, made: Build, run_ids: Sequence[str]
) -> list[RunRecord]:
    records: dict[str, RunRecord] = {}
    for record in (find_run(lake, run_id) for run_id in run_ids):
        if record.setting not in _full_settings(benchmark, made):
            wanted = ", ".join(_full_settings(benchmark, made))
            raise UsageError(
                f"run {record.run_id} is of {record.setting}; this is built from {wanted}"
            )
        if record.status != "finished":
            raise UsageError(
                f"run {record.run_id} is {record.status}, not finished: finish it by `parley run` first"
            )
        other = records.setdefault(record.setting, record)
        if other.run_id != record.run_id:
            raise UsageError(
                f"runs {other.run_id} and {record.run_id} are both of {record.setting}: name one of them"
            )
    return list(records.values())


def _latest(lake: Lake, benchmark: Benchmark, made: Build, model: str) -> list[RunRecord]:
    settings = _full_settings(benchmark, made)
    rows = [
        row
        for row in lake.read("runs", RunRecord, benchmark=benchmark.name)
        if row.setting in settings
    ]
    models = {row.model for row in rows if model in (row.model, row.model.partition(":")[2])}
    if len(models) > 1:
        raise UsageError(
            f"several models are called {model!r}: {', '.join(sorted(models))}. Name one of them in full"
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
            f"no run of {model} is finished ({', '.join(f'{row.run_id}: {row.status}' for row in of_model)})"
        )
    return [latest[setting] for setting in settings if setting in latest]


def _full_settings(benchmark: Benchmark, made: Build) -> tuple[str, ...]:
    """Settings as `BENCHMARK.SETTING`, the form in records of runs."""
    return tuple(f"{benchmark.name}.{setting}" for setting in made.settings)


def _finished_run(lake: Lake, record: RunRecord) -> FinishedRun:
    keys = {"benchmark": record.benchmark, "model": record.model}

    def episodes() -> list[Episode]:
        members = lake.read("run_episodes", RunEpisode, **keys, run_id=record.run_id)
        return list(
            read_episodes(
                lake, record.benchmark, record.model, [m.episode_id for m in members]
            ).values()
        )

    def problems() -> dict[str, Problem]:
        found = lake.read(
            "problems", Problem, benchmark=record.benchmark, dataset_version=record.dataset_version
        )
        return {problem.problem_id: problem for problem in found}

    spec = RunSpec.model_validate_json(record.spec_json)
    return FinishedRun(record.run_id, spec, record.finished_at, episodes, problems)

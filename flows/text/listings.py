"""Tables of `parley list`."""

from collections.abc import Sequence
from typing import Any

from tasks.storage.home import Home

Rows = tuple[tuple[str, ...], Sequence[tuple[Any, ...]]]


def listing(home: Home, what: str, run: str | None = None) -> Rows:
    """Columns and rows; the first column is the thing's name.

    Raises:
        UsageError: `run` names none or several.
    """
    if what == "episodes":
        return _episodes(home, run)
    return {"benchmarks": _benchmarks, "metrics": _metrics, "sandboxes": _sandboxes, "runs": _runs, "models": _models}[what](home)


def _benchmarks(_home: Home) -> Rows:
    from tasks.benchmarks import registry

    rows = []
    for name in registry.names():
        benchmark = registry.load(name)
        for setting in benchmark.settings.values():
            options = " ".join(f"{o.name}={'|'.join(o.values)}" for o in setting.options)
            versions = ", ".join(benchmark.data.versions)
            rows.append((f"{name}.{setting.name}", benchmark.about.title, versions, options, setting.help))
    return ("setting", "benchmark", "dataset_versions", "options", "about"), rows


def _metrics(_home: Home) -> Rows:
    from tasks.benchmarks import registry
    from tasks.metrics import registry as metrics

    rows = []
    for name in registry.names():
        for metric in registry.load(name).scores.metrics:
            found = metrics.load(metric)
            rows.append((metric, found.version, name, found.summary))
    return ("metric", "version", "benchmark", "about"), rows


def _sandboxes(_home: Home) -> Rows:
    from sandbox import registry
    from schemas.errors import SandboxUnavailable

    rows = []
    for name in registry.names():
        sandbox = registry.load(name)
        try:
            sandbox.check()
            state = "usable"
        except SandboxUnavailable as error:
            state = str(error)
        rows.append((name, sandbox.isolated, state))
    return ("sandbox", "isolated", "state"), rows


def _runs(home: Home) -> Rows:
    from schemas.run import RunRecord
    from tasks.storage.parquet_store import Lake

    records = sorted(Lake(home.lake).read("runs", RunRecord), key=lambda r: r.started_at, reverse=True)
    columns = (
        "run_id",
        "setting",
        "dataset_version",
        "model",
        "status",
        "n_episodes",
        "n_owed",
        "n_infra",
        "n_unscored",
        "finished_at",
    )
    return columns, [tuple(getattr(r, c) for c in columns) for r in records]


def _models(home: Home) -> Rows:
    from schemas.run import ModelRecord
    from tasks.storage.parquet_store import Lake

    columns = ("model", "revision", "weights_digest", "usd_per_million_input", "usd_per_million_output")
    return columns, [tuple(getattr(m, c) for c in columns) for m in Lake(home.lake).read("models", ModelRecord)]


def _episodes(home: Home, run: str | None) -> Rows:
    from schemas.run import RunEpisode, RunRecord
    from tasks.planning.plan import find_run
    from tasks.storage.parquet_store import Lake

    lake = Lake(home.lake)
    columns = ("episode_id", "problem_id", "sample", "setting", "model", "run_id")
    settings = {record.run_id: record.setting for record in lake.read("runs", RunRecord)}
    if run is None:
        members = lake.read("run_episodes", RunEpisode)
    else:
        found = find_run(lake, run)
        members = lake.read("run_episodes", RunEpisode, benchmark=found.benchmark, model=found.model, run_id=found.run_id)
    return columns, [(m.episode_id, m.problem_id, m.sample, settings.get(m.run_id), m.model, m.run_id) for m in members]

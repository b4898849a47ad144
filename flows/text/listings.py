"""Tables of `parley list`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flows.text.reasons import in_three_lines
from schemas.outside.hidden import hidden
from tasks.storage.home import Home

if TYPE_CHECKING:
    from tasks.storage.parquet_store import Lake

Rows = tuple[tuple[str, ...], Sequence[tuple[Any, ...]]]


def listing(home: Home, what: str, run: str | None = None) -> Rows:
    """Columns and rows; the first column is the thing's name.

    Raises:
        UsageError: `run` names none or several.
    """
    if what == "episodes":
        return _episodes(home, run)
    tables = {
        "benchmarks": _benchmarks,
        "agents": _agents,
        "builds": _builds,
        "metrics": _metrics,
        "sandboxes": _sandboxes,
        "runs": _runs,
        "models": _models,
        "templates": _templates,
    }
    return tables[what](home)


_HEADS = {
    "run_id": "run",
    "dataset_version": "data",
    "n_episodes": "episodes",
    "finished_at": "finished",
    "weights_digest": "weights",
}
_DIGITS = 12
"""Of a digest. The beginning of a run's id names the run."""
_MINUTES = len("2026-01-01T00:00")
_FAULTS = ("owed", "infra", "unscored")
_UNSHOWN = ("withheld_reason", "released_because", "text")
"""Columns that no table has: `reason_lines` and `--json` have them."""


def printed_listing(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Rows:
    """The listing as a person reads it: short heads and ids, times to the minute, faults beside a run's state."""
    printed = [_printed(dict(zip(columns, row, strict=True))) for row in rows]
    kept = [c for c in columns if c.removeprefix("n_") not in _FAULTS and c not in _UNSHOWN]
    heads = tuple(_HEADS.get(column, column.replace("_", " ")) for column in kept)
    return heads, [tuple(one[column] for column in kept) for one in printed]


def reason_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return why each withheld or incomplete run of a listing is so, and why it was released; each fills three lines at most."""
    lines: list[str] = []
    for one in (dict(zip(columns, row, strict=True)) for row in rows):
        if one.get("withheld_reason"):
            state = (
                f"released ({one['released_because']}), withheld"
                if one["released_because"]
                else one["status"]
            )
            lines.append(
                in_three_lines(f"{one['run_id'][:_DIGITS]}  {state}: {one['withheld_reason']}")
            )
    return lines


def _printed(one: dict[str, Any]) -> dict[str, Any]:
    if "n_episodes" in one:
        faults = [f"{one[f'n_{name}']} {name}" for name in _FAULTS if one[f"n_{name}"]]
        one["n_episodes"] = ", ".join([str(one["n_episodes"]), *faults])
        one["status"] = "released" if one["released_because"] else one["status"]
    for digest in one.keys() & {"run_id", "weights_digest"}:
        one[digest] = one[digest][:_DIGITS]
    if "finished_at" in one:
        one["finished_at"] = one["finished_at"][:_MINUTES].replace("T", " ")
    return one


def _benchmarks(home: Home) -> Rows:
    from flows.text.benchmark_listing import COLUMNS, benchmark_rows

    return COLUMNS, benchmark_rows(home)


def _agents(_home: Home) -> Rows:
    from tasks.dialogue.agents.registry import AGENTS

    found = [AGENTS.load(name) for name in AGENTS.names()]
    rows = [
        (
            a.name,
            a.version,
            " ".join(f"{o.name}={'|'.join(o.values) or o.default}" for o in a.options),
            a.help,
        )
        for a in found
    ]
    return ("agent", "version", "options", "about"), rows


def _builds(_home: Home) -> Rows:
    from tasks.benchmarks.known_builds import builds, constructions, layouts

    rows = [
        (name, f"runs of {', '.join(made.settings)}", "", made.help)
        for name, (_, made) in builds().items()
    ]
    rows += [
        (name, "the package registry, git checkouts", "", layout.help)
        for name, layout in layouts().items()
    ]
    for name, (_, made) in constructions().items():
        needs = [
            *(f"a {role}" for role in made.roles),
            *(["an embedder"] if made.needs_embedder else []),
        ]
        options = " ".join(f"{o.name}={'|'.join(o.choices)}" for o in made.options)
        rows.append(
            (
                name,
                " and ".join([*needs, *(["a sandbox"] if made.runs_programs else [])]),
                options,
                made.help,
            )
        )
    return ("build", "made_by", "options", "about"), rows


def _templates(_home: Home) -> Rows:
    from tasks.benchmarks.registry import BENCHMARKS

    rows = []
    for benchmark in map(BENCHMARKS.load, BENCHMARKS.names()):
        for name, template in benchmark.wording.templates.items() if benchmark.wording else ():
            values = " ".join(
                f"{{{one}}}{'' if one not in template.needed else ' (needed)'}"
                for one in template.placeholders
            )
            settings = ", ".join(f"{benchmark.name}.{one}" for one in template.settings)
            rows.append(
                (name, template.kind, settings, values, ", ".join(template.variants), template.text)
            )
    return ("template", "kind", "settings", "placeholders", "variants", "text"), rows


def _metrics(_home: Home) -> Rows:
    from tasks.benchmarks.registry import BENCHMARKS
    from tasks.metrics.registry import METRICS

    rows = []
    for name in BENCHMARKS.names():
        for metric in BENCHMARKS.load(name).all_metrics:
            found = METRICS.load(metric)
            rows.append((metric, found.version, name, found.summary))
    return ("metric", "version", "benchmark", "about"), rows


def _sandboxes(_home: Home) -> Rows:
    from sandbox.registry import SANDBOXES, load
    from schemas.errors import SandboxUnavailable

    rows = []
    for name in SANDBOXES.names():
        sandbox = load(name)
        try:
            sandbox.check()
            state = "usable"
        except SandboxUnavailable as error:
            state = str(error)
        rows.append((name, sandbox.isolated, state))
    return ("sandbox", "isolated", "state"), rows


def _lake(home: Home) -> "Lake":
    """The lake. Its reader, pyarrow, looks for numpy, whose import takes longer than all the rest of such a command."""
    with hidden("numpy"):
        from tasks.storage.parquet_store import Lake

    return Lake(home.lake)


def _runs(home: Home) -> Rows:
    from schemas.lake.records import RunRecord

    lake = _lake(home)  # before what imports pyarrow
    from tasks.planning.reporting.releasing import released_because

    records = sorted(lake.read("runs", RunRecord), key=lambda r: r.started_at, reverse=True)
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
        "withheld_reason",
    )
    released = [released_because(lake, r) for r in records]
    shown = [
        r if reason is None else r.model_copy(update={"status": "finished"})
        for r, reason in zip(records, released, strict=True)
    ]
    rows = [
        (*(getattr(r, c) for c in columns), reason)
        for r, reason in zip(shown, released, strict=True)
    ]
    return (*columns, "released_because"), rows


def _models(home: Home) -> Rows:
    from schemas.lake.records import ModelRecord

    columns = (
        "model",
        "revision",
        "weights_digest",
        "usd_per_million_input",
        "usd_per_million_output",
        "usd_per_hour",
    )
    return columns, [
        tuple(getattr(m, c) for c in columns) for m in _lake(home).read("models", ModelRecord)
    ]


def _episodes(home: Home, run: str | None) -> Rows:
    from schemas.lake.records import RunEpisode, RunRecord

    lake = _lake(home)
    columns = ("episode_id", "problem_id", "sample", "setting", "model", "run_id")
    settings = {record.run_id: record.setting for record in lake.read("runs", RunRecord)}
    if run is None:
        members = lake.read("run_episodes", RunEpisode)
    else:
        from tasks.planning.known_runs import find_run

        found = find_run(lake, run)
        members = lake.read(
            "run_episodes",
            RunEpisode,
            benchmark=found.benchmark,
            model=found.model,
            run_id=found.run_id,
        )
    return columns, [
        (m.episode_id, m.problem_id, m.sample, settings.get(m.run_id), m.model, m.run_id)
        for m in members
    ]

"""Tables of `parley list`."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from flows.text.reasons import in_three_lines
from flows.text.records import as_records
from schemas.outside.hidden import hidden
from tasks.storage.home import Home

if TYPE_CHECKING:
    from tasks.storage.parquet_store import Lake

Rows = tuple[tuple[str, ...], Sequence[tuple[Any, ...]]]


def listing(home: Home, kind: str, run: str | None = None) -> Rows:
    """Return columns and rows of the table for a kind of item, such as `runs`.

    The first column holds the names.

    Raises:
        UsageError: `run` matches no run or several.
    """
    if kind == "episodes":
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
    return tables[kind](home)


_HEADS = {
    "run_id": "run",
    "dataset_version": "data",
    "n_episodes": "episodes",
    "finished_at": "finished",
    "weights_digest": "weights",
}
_DIGITS = 12
"""Characters of a shortened digest. The first characters of a run's id identify the run."""
_NUMBERS = re.compile(r"\b(\d+)(?:\|\d+){4,}\|(\d+)\b")
"""Pattern of an option's choices if they are six or more numbers. A table shows the first and last.
"""
_MINUTES = len("2026-01-01T00:00")
_FAULTS = {"owed": "pending", "infra": "infra", "unscored": "unscored"}
"""Map from the suffix of a count's column to the word that the table shows for it."""
_HIDDEN = ("withheld_reason", "released_because", "text")
"""Columns that no table shows, only `reason_lines` and `--json`."""


def printed_listing(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Rows:
    """Return the listing for a terminal.

    Heads, ids and times are short. The numbers of episodes without a valid result share a cell.
    """
    printed = [_printed(record) for record in as_records(columns, rows)]
    visible = [c for c in columns if c.removeprefix("n_") not in _FAULTS and c not in _HIDDEN]
    heads = tuple(_HEADS.get(column, column.replace("_", " ")) for column in visible)
    return heads, [tuple(row[column] for column in visible) for row in printed]


def printed_tables(
    kind: str, columns: Sequence[str], rows: Sequence[Any]
) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[Any]]]]:
    """Yield title, heads and cells of each table that shows the listing of a kind on a terminal.

    Each benchmark's metrics have a table of their own, without a column for the benchmark, so that
    full names of metrics fit.
    """
    if kind == "metrics":
        for benchmark, metrics in groupby(rows, key=lambda row: row[2]):
            cells = [(metric, version, about) for metric, version, _, about in metrics]
            yield f"Metrics of {benchmark}", ("metric", "version", "about"), cells
    elif kind == "benchmarks":
        from flows.text.benchmark_listing import printed_rows

        yield "", *printed_rows(rows)
    else:
        yield "", *printed_listing(columns, rows)


def reason_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return the reason of each withheld, incomplete or released run, in at most three lines."""
    lines: list[str] = []
    for run in as_records(columns, rows):
        if run.get("withheld_reason"):
            state = (
                f"released ({run['released_because']}), withheld"
                if run["released_because"]
                else run["status"]
            )
            lines.append(
                in_three_lines(f"{run['run_id'][:_DIGITS]}  {state}: {run['withheld_reason']}")
            )
    return lines


def _printed(row: dict[str, Any]) -> dict[str, Any]:
    if "n_episodes" in row:
        faults = [
            f"{row[f'n_{fault}']} {word}" for fault, word in _FAULTS.items() if row[f"n_{fault}"]
        ]
        row["n_episodes"] = ", ".join([str(row["n_episodes"]), *faults])
        row["status"] = "released" if row["released_because"] else row["status"]
    for digest in row.keys() & {"run_id", "weights_digest"}:
        row[digest] = row[digest][:_DIGITS]
    if "options" in row:
        row["options"] = _NUMBERS.sub(r"\1|…|\2", row["options"])
    if "finished_at" in row:
        row["finished_at"] = row["finished_at"][:_MINUTES].replace("T", " ")
    return row


def _benchmarks(home: Home) -> Rows:
    from flows.text.benchmark_listing import COLUMNS, benchmark_rows

    return COLUMNS, benchmark_rows(home)


def _agents(_home: Home) -> Rows:
    from tasks.dialogue.agents.registry import AGENTS

    rows: list[tuple[Any, ...]] = []
    for agent in map(AGENTS.load, AGENTS.names()):
        options = (f"{o.name}={'|'.join(o.values) or o.default}" for o in agent.options)
        rows.append((agent.name, agent.version, " ".join(options), agent.help))
    return ("agent", "version", "options", "about"), rows


def _builds(_home: Home) -> Rows:
    from tasks.benchmarks.registry import builds, constructions, layouts

    rows = [
        (name, f"runs of {', '.join(build.settings)}", "", build.help)
        for name, (_, build) in builds().items()
    ]
    rows += [
        (name, "the package registry, git checkouts", "", layout.help)
        for name, layout in layouts().items()
    ]
    for name, (_, build) in constructions().items():
        needs = [f"a {role}" for role in build.roles]
        needs += ["an embedder"] if build.needs_embedder else []
        needs += ["a sandbox"] if build.runs_programs else []
        options = " ".join(f"{o.name}={'|'.join(o.choices)}" for o in build.options)
        rows.append((name, " and ".join(needs), options, build.help))
    return ("build", "made_by", "options", "about"), rows


def _templates(_home: Home) -> Rows:
    from tasks.benchmarks.registry import BENCHMARKS

    rows = []
    for benchmark in map(BENCHMARKS.load, BENCHMARKS.names()):
        for name, template in benchmark.wording.templates.items() if benchmark.wording else ():
            values = " ".join(
                f"{{{name}}}{'' if name not in template.needed else ' (required)'}"
                for name in template.placeholders
            )
            settings = ", ".join(f"{benchmark.name}.{setting}" for setting in template.settings)
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
            definition = METRICS.load(metric)
            rows.append((metric, definition.version, name, definition.summary))
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
    """Return the lake, without importing numpy.

    pyarrow would import numpy, which takes longer than the rest of the command.
    """
    with hidden("numpy"):
        from tasks.storage.parquet_store import Lake

    return Lake(home.lake)


def _runs(home: Home) -> Rows:
    from schemas.lake.records import RunRecord

    lake = _lake(home)  # This comes first, because the next import loads pyarrow.
    from tasks.planning.reporting.publishing import released_because

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
    rows: list[tuple[Any, ...]] = []
    for record in records:
        reason = released_because(lake, record)
        facts = record.model_dump(include={*columns})
        facts["status"] = record.status if reason is None else "finished"
        rows.append((*(facts[column] for column in columns), reason))
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
    keys: dict[str, str] = {}
    if run is not None:
        from tasks.planning.why_rerun import find_run

        record = find_run(lake, run)
        keys = record.model_dump(include={"benchmark", "model", "run_id"})
    return columns, [
        (m.episode_id, m.problem_id, m.sample, settings.get(m.run_id), m.model, m.run_id)
        for m in lake.read("run_episodes", RunEpisode, **keys)
    ]

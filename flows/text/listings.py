"""Tables of `parley list`, and the details of a benchmark or setting."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from flows.text.records import as_records
from schemas.outside.display import in_three_lines
from schemas.outside.hidden import hidden
from tasks.benchmarks.registry import BENCHMARKS, resolve_name
from tasks.storage.home import Home
from tasks.storage.parquet_rows import n_rows

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Benchmark
    from tasks.benchmarks.setting import Setting
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
    columns = ("setting", "benchmark", "dataset_versions", "rows_staged", "options", "about")
    return columns, benchmark_rows(home)


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
        *("run_id", "setting", "dataset_version", "model", "status", "n_episodes"),
        *("n_owed", "n_infra", "n_unscored", "finished_at", "withheld_reason"),
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
    columns = ("episode_id", "problem_id", "dialog_id", "sample", "setting", "model", "run_id")
    settings = {record.run_id: record.setting for record in lake.read("runs", RunRecord)}
    keys: dict[str, str] = {}
    if run is not None:
        from tasks.planning.why_rerun import find_run
        from tasks.storage.parquet_store import run_keys

        keys = run_keys(find_run(lake, run))
    rows = lake.read("run_episodes", RunEpisode, **keys)
    keys.pop("run_id", None)  # another run may have played an episode
    ids = ["episode_id", "dialog_id"]
    episodes = lake.read_arrow("episodes", lake.parts("episodes", **keys), ids)
    dialogs = dict(zip(*(episodes[name].to_pylist() for name in ids), strict=True))
    found = ((m, dialogs.get(m.episode_id), settings.get(m.run_id)) for m in rows)
    return columns, [
        (m.episode_id, m.problem_id, dialog, m.sample, setting, m.model, m.run_id)
        for m, dialog, setting in found
    ]


_WIDTH = 80
_GAP = 5
"""Number of characters of a printed line that belong to no column."""
BenchmarkRow = tuple[str, str, str, Mapping[str, int] | None, str, str]


def benchmark_rows(home: Home) -> list[BenchmarkRow]:
    """Return a row for each setting of all benchmarks.

    `rows_staged` is None if the lake is in an object store.
    """
    rows: list[BenchmarkRow] = []
    for benchmark in map(BENCHMARKS.load, BENCHMARKS.names()):
        staged = rows_staged(home, benchmark.name)
        for setting in benchmark.settings.values():
            options = " ".join(f"{o.name}={'|'.join(o.choices)}" for o in setting.options)
            versions = ", ".join(benchmark.data.versions)
            name = f"{benchmark.name}.{setting.name}"
            rows.append((name, benchmark.about.title, versions, staged, options, setting.help))
    return rows


def rows_staged(home: Home, benchmark: str) -> Mapping[str, int] | None:
    """Return a map from dataset version to the number of rows that were staged last.

    Return None if the lake is in an object store, where counting would be slow.
    """
    if home.is_store:
        return None
    counts: dict[str, int] = {}
    for folder in sorted((home.lake / "problems" / f"benchmark={benchmark}").glob("dataset=*")):
        parts = sorted(folder.glob("part-*.parquet"), key=lambda part: part.stat().st_mtime_ns)
        if parts:
            counts[folder.name.partition("=")[2]] = n_rows(parts[-1])
    return counts


def printed_rows(rows: Sequence[BenchmarkRow]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and cells of a table with one line of at most 80 characters for each setting."""
    room = _WIDTH - _GAP - max((len(row[0]) for row in rows), default=0)
    cells = [
        (name, _datasets(versions.split(", "), staged or {}, room))
        for name, _, versions, staged, *_ in rows
    ]
    return ("setting", "datasets (rows staged)"), cells


def _datasets(versions: Sequence[str], staged: Mapping[str, int], room: int) -> str:
    """Return staged versions with their numbers of rows, then other versions, in `room` characters.

    `+N` at the end counts the versions that did not fit.
    """
    ordered = [
        *(name for name in versions if name in staged),
        *(name for name in versions if name not in staged),
    ]
    words = [f"{name} ({staged[name]:,})" if name in staged else name for name in ordered]
    for n_shown in range(len(words), 0, -1):
        more = [f"+{len(words) - n_shown}"] if n_shown < len(words) else []
        text = ", ".join([*words[:n_shown], *more])
        if len(text) <= room:
            return text
    return f"+{len(words)}"


def described(home: Home, name: str) -> Iterator[str]:
    """Yield the lines that describe a benchmark or one of its settings.

    Raises:
        UnknownName: no benchmark or setting has this name.
    """
    benchmark_name, _, setting_name = resolve_name(name).partition(".")
    benchmark = BENCHMARKS.load(benchmark_name)
    settings = (
        [benchmark.setting(setting_name)] if setting_name else list(benchmark.settings.values())
    )
    yield f"{benchmark.about.title} ({benchmark.name})"
    yield from textwrap.wrap(benchmark.about.paper, _WIDTH)
    yield from _fact("metrics", ", ".join(benchmark.scores.metrics))
    yield from _fact("datasets", _all_datasets(home, benchmark))
    for setting in settings:
        yield ""
        yield from _setting(benchmark, setting)


def _all_datasets(home: Home, benchmark: "Benchmark") -> str:
    staged = rows_staged(home, benchmark.name)
    words = []
    for version in benchmark.data.versions:
        notes = ["default"] if version == benchmark.data.default_version else []
        notes += [f"{staged[version]:,} rows staged"] if staged and version in staged else []
        words.append(f"{version} ({', '.join(notes)})" if notes else version)
    return ", ".join(words)


def _setting(benchmark: "Benchmark", setting: "Setting") -> Iterator[str]:
    yield f"{benchmark.name}.{setting.name}"
    yield from textwrap.wrap(setting.help, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    if setting.metrics:
        yield from _fact("further metrics", ", ".join(setting.metrics))
    for option in setting.options:
        yield from _fact(
            f"--option {option.name}",
            f"{option.help}. {'|'.join(option.choices)} (default: {option.default})",
        )


def _fact(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        f"{name}: {text}",
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )

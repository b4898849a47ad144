"""`parley list benchmarks`: one line for each setting, or the details of a benchmark or setting."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.benchmarks.registry import BENCHMARKS, resolve_name
from tasks.storage.home import Home
from tasks.storage.parquet_rows import n_rows

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Benchmark
    from tasks.benchmarks.setting import Setting

COLUMNS = ("setting", "benchmark", "dataset_versions", "rows_staged", "options", "about")
_WIDTH = 80
_GAP = 5
"""Number of characters of a printed line that belong to no column."""
Row = tuple[str, str, str, Mapping[str, int] | None, str, str]


def benchmark_rows(home: Home) -> list[Row]:
    """Return a row for each setting of all benchmarks.

    `rows_staged` is None if the lake is in an object store.
    """
    rows: list[Row] = []
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


def printed_rows(rows: Sequence[Row]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
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

"""Rows of a dataset: finding, parsing and staging them, and choosing a setting's dialogs."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.resources import as_file
from pathlib import Path

from sandbox.workspace.interface import image_of
from schemas.content_id import canonical_json, content_id
from schemas.dialog import Dialog
from schemas.errors import ConfigError, CorruptRows, SourceUnreadable, UnknownName, UsageError
from schemas.lake.rows import PackedRows
from schemas.problem import Problem, QuarantinedRow
from tasks.benchmarks.contract import Benchmark, Staged
from tasks.benchmarks.registry import BENCHMARKS
from tasks.datasets.catalogue import how_to_get
from tasks.planning.environment_check import MissingPackages, with_environments_checked
from tasks.planning.request import BenchmarkRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tasks.storage.staged_rows import PlayedDialogs, write_contexts

_SHOWN_FILES = 5


class DatasetCache:
    """Datasets that a session has parsed. Each is parsed once, so that all runs see equal rows."""

    def __init__(self) -> None:
        self._staged: dict[tuple[str, str, str], Staged] = {}

    def read(self, benchmark: Benchmark, source: Path, version: str) -> Staged:
        """Parse raw data.

        Raises:
            SourceUnreadable: no row can be read.
        """
        key = (benchmark.name, str(source.absolute()), f"{version} {benchmark.data.edition}")
        if key not in self._staged:
            self._staged[key] = benchmark.data.stage(source, version)
        return self._staged[key]

    def resolve(
        self,
        benchmark: Benchmark,
        staged: Staged,
        source: Path | None,
        places: Mapping[str, Path],
        home: Home,
    ) -> Staged:
        """Resolve the resources of a dataset's rows."""
        resolve = benchmark.resources.resolve
        assert resolve is not None
        paths = {name: str(place.absolute()) for name, place in places.items()}
        inputs = canonical_json([str(source.absolute()) if source else None, sorted(paths.items())])
        key = (benchmark.name, staged.digest, inputs)
        if key not in self._staged:
            self._staged[key] = resolve(staged, source, places, home)
        return self._staged[key]


def absolute_resources(
    benchmark: str, resources: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """Return the resources with paths made absolute. Resources that are names stay unchanged.

    Args:
        benchmark: `BENCHMARK` or `BENCHMARK.SETTING`. If it is unknown, all resources count as
            paths.
        resources: maps the name of each resource to its path or name.
        folder: folder that relative paths start from.
    """
    first = benchmark.partition(".")[0]
    names = (
        BENCHMARKS.load(first).resources.names if resources and first in BENCHMARKS.names() else ()
    )
    return {
        name: place if name in names else str((folder / place).absolute())
        for name, place in resources.items()
    }


def resolved_data(
    benchmark: Benchmark,
    data: str | None,
    version: str,
    home: Home,
    resources: Mapping[str, str],
    sandbox: str | None = None,
    setting: str | None = None,
    cache: DatasetCache | None = None,
) -> Staged:
    """Return a dataset's rows (see `find_data`) with their resources resolved.

    Args:
        benchmark: benchmark of the dataset.
        data: see `find_data`.
        version: version of the dataset.
        home: home whose lake contains staged rows.
        resources: maps the name of each resource to its path or name.
        sandbox: name of the sandbox that checks the trees of the rows by running the trees' own
            tests (see `environment_check`). None: no check.
        setting: see `find_data`.
        cache: see `find_data`.

    Raises:
        UsageError: `find_data` raises it, a resource is unknown, or its path does not exist.
    """
    help_texts = benchmark.resources.help
    for name, place in resources.items():
        if name not in help_texts:
            raise UnknownName(
                "resource",
                name,
                help_texts,
                "" if help_texts else f"{benchmark.name} needs no resources",
                of=benchmark.name,
            )
        if name not in benchmark.resources.names and not Path(place).exists():
            raise ConfigError(
                f"--resource {name}={place}: the path does not exist. {help_texts[name]}"
            )
    places = {name: Path(path) for name, path in resources.items()}
    bundled = {"sample": benchmark.data.sample, **benchmark.data.bundled}
    cache = cache or DatasetCache()
    staged = find_data(benchmark, data, version, Lake(home.lake), setting, cache)
    if benchmark.resources.resolve is None:
        return staged
    with (
        as_file(bundled[version])
        if data is None and version in bundled
        else nullcontext(data and Path(data)) as source
    ):
        folder = Path(source) if source else None
        resolved = cache.resolve(benchmark, staged, folder, places, home)
    return (
        with_environments_checked(benchmark, resolved, resources, home, sandbox)
        if sandbox
        else resolved
    )


def images_of(staged: Staged) -> tuple[str, ...]:
    """Return the Docker images of the problems' programs, pinned by digest. May be empty."""
    repositories = staged.problems.table(["repo"])["repo"].combine_chunks().drop_null()
    images = {
        image_of(environment)
        for environment in repositories.field("environment").unique().to_pylist()
    }
    return tuple(sorted(images - {""}))


def find_data(
    benchmark: Benchmark,
    data: str | None,
    version: str,
    lake: Lake,
    setting: str | None = None,
    cache: DatasetCache | None = None,
) -> Staged:
    """Return a dataset's rows.

    They come from `data`, or else from the bundled sample, or else from the rows staged last.

    Args:
        benchmark: benchmark of the dataset.
        data: path of raw data; None for bundled or staged data.
        version: version of the dataset.
        lake: lake with staged rows.
        setting: setting whose datasets an error names; None for the datasets of all settings.
        cache: datasets that were parsed before; None for none.

    Raises:
        UsageError: there is no such data. The message contains the command that provides it.
        CorruptRows: the staged rows changed after staging.
    """
    cache = cache or DatasetCache()
    if data is not None:
        staged = cache.read(benchmark, Path(data), version)
        return require_rows(staged, data, benchmark.name, version)
    bundled = {"sample": benchmark.data.sample, **benchmark.data.bundled}
    if version in bundled:
        with as_file(bundled[version]) as folder:
            return cache.read(benchmark, folder, version)
    parts = lake.parts("problems", benchmark=benchmark.name, dataset_version=version)
    if not parts:
        how = how_to_get(benchmark, version, setting)
        raise UsageError(
            f"no data of {benchmark.name}, dataset version {version!r}, is staged in {lake.root}. "
            f"{how}{'. ' if how else ''}Or name its folder with --data DIR, or stage it once: "
            f"parley stage {benchmark.name} --data DIR --dataset-version {version}"
        )
    keys = {"benchmark": benchmark.name, "dataset_version": version}
    latest, dialog_part, dialogs = _latest(
        benchmark, sorted(parts, key=lambda part: -part.stat().st_mtime_ns), lake, keys
    )
    problems = PackedRows[Problem].of_tables("problems", lake.read_pieces("problems", [latest]))
    quarantined = tuple(lake.read("quarantine", QuarantinedRow, **keys))
    staged = Staged(dialogs, problems, quarantined, len(problems) + len(quarantined))
    if dialog_part.name != f"part-{staged.digest}.parquet":
        raise CorruptRows(
            f"the digest in the name of {dialog_part} is not that of its rows: rows were added, "
            "lost or changed after staging. Stage them again: "
            f"parley stage {benchmark.name} --data DIR --dataset-version {version}"
        )
    return staged


def _latest(
    benchmark: Benchmark, parts: Sequence[Path], lake: Lake, keys: Mapping[str, str]
) -> tuple[Path, Path, PackedRows[Dialog]]:
    """Return the latest staged edition whose questions the benchmark's templates rendered.

    An edition is one staged state of a dataset's rows, named by its digest.

    Args:
        benchmark: benchmark, with the user's templates if the run has some.
        parts: files of problems, latest first.
        lake: lake that contains the files.
        keys: partition of the dataset's rows.

    Returns:
        The edition's file of problems, its file of dialogs, and the dialogs.

    Raises:
        UsageError: no edition matches.
    """
    for part in parts:
        dialog_part = lake.folder("dialogs", **keys) / part.name
        dialogs = PackedRows[Dialog].of_tables(
            "dialogs", lake.read_pieces("dialogs", [dialog_part])
        )
        editions = {dialog.edition for dialog in dialogs} - {""}
        if editions == ({benchmark.data.edition} if benchmark.data.edition else set()):
            return part, dialog_part, dialogs
    templates = "these templates" if benchmark.data.edition else "the benchmark's own templates"
    raise UsageError(
        f"no data of {benchmark.name} is staged with {templates}. Name the folder of its raw files "
        "with --data DIR"
    )


def require_dialogs(benchmark: Benchmark, setting: str, staged: Staged) -> PlayedDialogs:
    """Return the dialogs that a setting plays.

    Raises:
        ConfigError: the data has only dialogs of other settings.
    """
    dialogs = PlayedDialogs(staged.dialogs, partial(benchmark.data.plays, setting))
    if not dialogs:
        versions = {dialog.dataset_version for dialog in staged.dialogs}
        others = [
            name
            for name in benchmark.settings
            if PlayedDialogs(staged.dialogs, partial(benchmark.data.plays, name))
        ]
        how = ". ".join(
            filter(None, (how_to_get(benchmark, version, setting) for version in sorted(versions)))
        )
        raise ConfigError(
            f"none of the {len(staged.dialogs)} dialogs of this data belongs to setting "
            f"{benchmark.name}.{setting}. Name other data with --data, or run another setting "
            f"({', '.join(others)})"
            f"{'. ' if how else ''}{how}"
        )
    return dialogs


def require_rows(staged: Staged, data: str, benchmark: str, version: str) -> Staged:
    """Return the staged rows if there is at least one problem.

    Raises:
        SourceUnreadable: no row could be staged. The message contains the fault of the first row.
    """
    if staged.problems:
        return staged
    why = ""
    if staged.quarantined:
        first = staged.quarantined[0]
        why = f" ({first.source_file} line {first.source_line}: {first.reason}, {first.detail})"
    raise SourceUnreadable(
        f"none of the {staged.n_input} rows in {data} could be staged{why}. "
        f"Is this {benchmark} data of version {version!r}?"
    )


def files_lines(datasets: Iterable[tuple[str, Staged]]) -> list[str]:
    """Return the line of each dataset's files, given as (benchmark, staged data), once."""
    each = {(benchmark, id(staged)): staged for benchmark, staged in datasets}
    return list(dict.fromkeys(files_line(staged, name) for (name, _), staged in each.items()))


def files_line(staged: Staged, benchmark: str) -> str:
    """Return a line that names the files of the rows, and files without a valid row."""
    read = Counter[str](staged.problems.table(["source_file"])["source_file"].to_pylist())
    bad = Counter(row.source_file for row in staged.quarantined if row.source_file not in read)
    named, others = (
        ", ".join(f"{file} ({n})" for file, n in list(files.items())[:_SHOWN_FILES])
        + (f" and {len(files) - _SHOWN_FILES} more files" if len(files) > _SHOWN_FILES else "")
        for files in (read, bad)
    )
    unread = f"; no valid row in {others}. Move other data out of the folder" if bad else ""
    return f"{benchmark}: rows read from {named}{unread}"


def write_staged(staged: Staged, benchmark: str, version: str, lake: Lake) -> str:
    """Write a dataset's rows to the lake and return their digest.

    Problems are written last, because an edition is visible once its problems exist. The table
    `quarantine` contains only the faults of the edition staged last.
    """
    digest = staged.digest
    keys = {"benchmark": benchmark, "dataset_version": version}
    name = content_id(staged.quarantined)
    if staged.quarantined:
        lake.write_part("quarantine", staged.quarantined, name, **keys)
    lake.keep_only("quarantine", [name] if staged.quarantined else [], **keys)
    if not staged.problems:
        return digest
    write_contexts(lake, staged.contexts)
    lake.write_pieces("dialogs", staged.dialogs.tables(), digest, **keys)
    lake.write_pieces("problems", staged.problems.tables(), digest, **keys)
    return digest


def choose_problems(
    request: BenchmarkRequest,
    benchmark: str,
    problem_ids: Sequence[str],
    selection: Collection[str] | None,
    skipped: MissingPackages | None,
) -> frozenset[str]:
    """Choose a run's problems in three steps: by option, then by `limit`, then by subsample.

    Args:
        request: has the limit and the subsample.
        benchmark: name of the benchmark. The order of subsamples depends on it.
        problem_ids: all problems of the dataset, in its order.
        selection: problems that the setting's options choose; None for all.
        skipped: problems to leave out because packages are missing; None for none.
    """
    excluded = skipped.problem_ids if skipped else frozenset[str]()
    names = tuple(
        name
        for name in problem_ids
        if (selection is None or name in selection) and name not in excluded
    )[: request.limit]
    if request.subsample is not None:
        n = max(1, math.floor(request.subsample.share * len(names) + 1e-9))
        names = problem_order(names, benchmark, request.subsample.seed)[:n]
    return frozenset(names)


def problem_order(problem_ids: Iterable[str], benchmark: str, seed: int) -> tuple[str, ...]:
    """Return problems in the order in which subsamples take them.

    The order depends on benchmark and seed only, so it is equal for all models and settings.
    """
    return tuple(sorted(problem_ids, key=lambda name: content_id([benchmark, seed, name])))

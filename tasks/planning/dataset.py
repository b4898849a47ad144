"""Finds a dataset's rows, counts them, keeps them in the lake, and picks the dialogs that a setting plays."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from importlib.resources import as_file
from pathlib import Path

from sandbox.workspace.interface import image_of
from schemas.content_id import canonical_json, content_id
from schemas.dialog import Dialog
from schemas.errors import ConfigError, CorruptRows, SourceUnreadable, UnknownName, UsageError
from schemas.lake.packed_rows import PackedRows
from schemas.problem import Problem, QuarantinedRow
from tasks.benchmarks.contract import Benchmark, Staged
from tasks.benchmarks.registry import BENCHMARKS
from tasks.datasets.located import how_to_get
from tasks.planning.environment_check import with_environments_checked
from tasks.planning.played_dialogs import PlayedDialogs
from tasks.storage.contexts import write_contexts
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_read: ContextVar[dict[tuple[str, Path, str], Staged] | None] = ContextVar(
    "parley_read", default=None
)


@contextmanager
def reading_once() -> Iterator[None]:
    """Parse each raw source once within the block, whoever asks for it: all see the same edition of it."""
    token = _read.set({} if _read.get() is None else _read.get())
    try:
        yield
    finally:
        _read.reset(token)


def read_raw(benchmark: Benchmark, source: Path, version: str) -> Staged:
    """Parse raw data. See `reading_once`.

    Raises:
        SourceUnreadable: nothing at all can be read.
    """
    known = _read.get()
    if known is None:
        return benchmark.data.stage(source, version)
    key = (benchmark.name, source.absolute(), f"{version} {benchmark.data.edition}")
    if key not in known:
        known[key] = benchmark.data.stage(source, version)
    return known[key]


def located(benchmark: str, resources: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Resources with their paths as they are meant from a folder; those that are names stay as they are.

    Args:
        benchmark: or a setting of it. Of one that nobody knows, all are paths.
    """
    first = benchmark.partition(".")[0]
    names = (
        BENCHMARKS.load(first).resources.names if resources and first in BENCHMARKS.names() else ()
    )
    return {
        name: place if name in names else str((folder / place).absolute())
        for name, place in resources.items()
    }


def furnished_data(
    benchmark: Benchmark,
    data: str | None,
    version: str,
    home: Home,
    resources: Mapping[str, str],
    sandbox: str | None = None,
    setting: str | None = None,
) -> Staged:
    """Rows of a dataset with what they need beside them, as `find_data` finds them.

    Args:
        sandbox: where the own tests of the rows' trees run; None runs none of them.

    Raises:
        UsageError: as `find_data`; an unknown resource, or one that is not there.
    """
    known = benchmark.resources.help
    for name, place in resources.items():
        if name not in known:
            raise UnknownName(
                "resource",
                name,
                known,
                "" if known else f"{benchmark.name} needs no resources",
                of=benchmark.name,
            )
        if name not in benchmark.resources.names and not Path(place).exists():
            raise ConfigError(f"--resource {name}={place}: nothing is there. {known[name]}")
    places = {name: Path(path) for name, path in resources.items()}
    bundled = {"sample": benchmark.data.sample, **benchmark.data.bundled}
    staged = find_data(benchmark, data, version, Lake(home.lake), setting)
    if benchmark.resources.resolve is None:
        return staged
    with (
        as_file(bundled[version])
        if data is None and version in bundled
        else nullcontext(data and Path(data)) as source
    ):
        furnished = _furnished(benchmark, staged, Path(source) if source else None, places, home)
    return (
        with_environments_checked(benchmark, furnished, resources, home, sandbox)
        if sandbox
        else furnished
    )


def _furnished(
    benchmark: Benchmark,
    staged: Staged,
    source: Path | None,
    places: Mapping[str, Path],
    home: Home,
) -> Staged:
    known, resolve = _read.get(), benchmark.resources.resolve
    assert resolve is not None
    given = {name: str(place.absolute()) for name, place in places.items()}
    where = canonical_json([str(source.absolute()) if source else None, sorted(given.items())])
    key = (benchmark.name, Path(staged.digest), where)
    if known is None:
        return resolve(staged, source, places, home)
    if key not in known:
        known[key] = resolve(staged, source, places, home)
    return known[key]


def images_of(staged: Staged) -> tuple[str, ...]:
    """Docker images, pinned by digest, that the problems' programs run in; none where they need none."""
    repositories = staged.problems.table(["repo"])["repo"].combine_chunks().drop_null()
    images = {
        image_of(environment)
        for environment in repositories.field("environment").unique().to_pylist()
    }
    return tuple(sorted(images - {""}))


def find_data(
    benchmark: Benchmark, data: str | None, version: str, lake: Lake, setting: str | None = None
) -> Staged:
    """Rows of a dataset: from a given path, the bundled sample, or what was staged before (the latest, if several).

    Args:
        setting: what the rows are for, so that an error names the datasets that it plays; None names those of all.

    Raises:
        UsageError: there is no such data; names the command to type.
        CorruptRows: the staged rows changed since they were staged.
    """
    if data is not None:
        return require_rows(read_raw(benchmark, Path(data), version), data, benchmark.name, version)
    bundled = {"sample": benchmark.data.sample, **benchmark.data.bundled}
    if version in bundled:
        with as_file(bundled[version]) as folder:
            return read_raw(benchmark, folder, version)
    parts = lake.parts("problems", benchmark=benchmark.name, dataset_version=version)
    if not parts:
        how = how_to_get(benchmark, version, setting)
        raise UsageError(
            f"no data of {benchmark.name}, dataset version {version!r}, is staged in {lake.root}. {how}{'. ' if how else ''}"
            f"Or give its folder by --data DIR,"
            f" or stage it once: parley stage {benchmark.name} --data DIR --dataset-version {version}"
        )
    keys = {"benchmark": benchmark.name, "dataset_version": version}
    latest, beside, dialogs = _latest(
        benchmark, sorted(parts, key=lambda part: -part.stat().st_mtime_ns), lake, keys
    )
    problems = PackedRows[Problem].of_tables("problems", lake.read_pieces("problems", [latest]))
    quarantined = tuple(lake.read("quarantine", QuarantinedRow, **keys))
    staged = Staged(dialogs, problems, quarantined, len(problems) + len(quarantined))
    if beside.name != f"part-{staged.digest}.parquet":
        raise CorruptRows(
            f"{beside} does not hold the rows that its name stands for: rows were added, lost or changed after staging."
            f" Stage them again: parley stage {benchmark.name} --data DIR --dataset-version {version}"
        )
    return staged


def _latest(
    benchmark: Benchmark, parts: Sequence[Path], lake: Lake, keys: Mapping[str, str]
) -> tuple[Path, Path, PackedRows[Dialog]]:
    """Return the first of the parts whose questions are worded by the benchmark's own texts, or by the user's as it has them.

    Returns:
        The part of the problems, that of the dialogs, and the dialogs.

    Raises:
        UsageError: there is none.
    """
    for part in parts:
        beside = lake.folder("dialogs", **keys) / part.name
        dialogs = PackedRows[Dialog].of_tables("dialogs", lake.read_pieces("dialogs", [beside]))
        editions = {dialog.edition for dialog in dialogs} - {""}
        if editions == ({benchmark.data.edition} if benchmark.data.edition else set()):
            return part, beside, dialogs
    wanted = "these templates" if benchmark.data.edition else "other words than a user's templates"
    raise UsageError(
        f"no data of {benchmark.name} is staged with {wanted}: give the folder of its raw files by --data DIR"
    )


def require_dialogs(benchmark: Benchmark, setting: str, staged: Staged) -> PlayedDialogs:
    """The dialogs that a setting plays, if there is any.

    Raises:
        ConfigError: the data has dialogs of other settings only.
    """
    dialogs = PlayedDialogs(benchmark, setting, staged.dialogs)
    if not dialogs:
        versions = {dialog.dataset_version for dialog in staged.dialogs}
        how = ". ".join(
            filter(None, (how_to_get(benchmark, version, setting) for version in sorted(versions)))
        )
        raise ConfigError(
            f"none of the {len(staged.dialogs)} dialogs of this data is of setting {benchmark.name}.{setting}: give data that has"
            f" some by --data, or run another setting ({', '.join(name for name in benchmark.settings if name != setting)})"
            f"{'. ' if how else ''}{how}"
        )
    return dialogs


def require_rows(staged: Staged, data: str, benchmark: str, version: str) -> Staged:
    """The rows, if there is any.

    Raises:
        SourceUnreadable: none could be staged; says what is wrong with the first.
    """
    if staged.problems:
        return staged
    why = ""
    if staged.quarantined:
        first = staged.quarantined[0]
        why = f" ({first.source_file} line {first.source_line}: {first.reason}, {first.detail})"
    raise SourceUnreadable(
        f"none of the {staged.n_input} rows in {data} could be staged{why}. Is this {benchmark} data of version {version!r}?"
    )


def write_staged(staged: Staged, benchmark: str, version: str, lake: Lake) -> str:
    """Write a dataset's rows to the lake; returns its digest. Problems come last: they make it visible.

    Quarantine holds the faults of the edition staged last. Mended rows leave it.
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

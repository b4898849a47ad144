"""Migration of lakes: parts of an older schema version are rewritten in the present one.

New fields get the default of their model. A part that defaults cannot complete is reported. It is
moved out of the lake only on request, because its dialogues were paid for.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import CorruptRows
from schemas.grouping import grouped
from schemas.lake.records import SEAL_PREFIX, RunRecord
from schemas.lake.rows import from_arrow, to_arrow
from schemas.lake.tables import TABLES
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from warehouse.lake import (
    SEALED,
    Partition,
    broken_seal,
    list_lake,
    open_parquet,
    run_seal,
    stated_version,
)

SET_ASIDE = "set-aside"


@dataclass
class Migration:
    """Result of a migration.

    Attributes:
        n_upgraded: number of rewritten parts.
        n_set_aside: number of parts moved to `<home>/set-aside`.
        stuck: parts that could not be migrated, with the reason.
    """

    n_upgraded: int = 0
    n_set_aside: int = 0
    stuck: tuple[str, ...] = ()


def migrate_lake(home: Home, *, set_aside: bool = False) -> Migration:
    """Rewrite parts of an older schema version, run by run.

    Parts of a newer version and damaged parts do not change.

    Args:
        home: home whose lake is migrated.
        set_aside: move parts that cannot be migrated out of the lake. The next run creates and pays
            for them again.

    Raises:
        UsageError: another process works on a run that has older parts.
        DiskFull: the disk is full. Each part is either rewritten or unchanged.
    """
    lake, result = Lake(home.lake), Migration()
    older = grouped(
        (partition.keys.get("run_id"), (partition, path))
        for partition, path in _parts(home.lake)
        if _is_older(partition.table, path)
    )
    for run_id, parts in older.items():
        with home.run_lock(run_id) if run_id else nullcontext():
            _migrate_run(home, lake, parts, result, set_aside=set_aside)
    return result


def _parts(root: Path) -> Iterable[tuple[Partition, Path]]:
    for partitions in list_lake(root).values():
        for partition in partitions.values():
            for part in partition.parts:
                yield partition, root / partition.folder / part.name


def _is_older(table: str, path: Path) -> bool:
    version = stated_version(table, path) or b"?"
    return version.isdigit() and int(version) < TABLES[table].version


def _migrate_run(
    home: Home,
    lake: Lake,
    parts: list[tuple[Partition, Path]],
    result: Migration,
    *,
    set_aside: bool,
) -> None:
    """Rewrite the parts of a run.

    The run's record is written first, without its seal, and last, with a seal of the new files.
    """
    parts = sorted(parts, key=lambda part: part[0].table != "runs")
    sealed = next((partition for partition, _ in parts if partition.table in SEALED), None)
    resealed = sealed is not None and _unseal(lake, sealed)
    for partition, path in parts:
        try:
            with open_parquet(path) as file:
                rows = to_arrow(
                    partition.table, from_arrow(file.read(), TABLES[partition.table].model)
                )
        except (CorruptRows, OSError, ValueError, KeyError) as error:
            _report_or_move(home, path, f"{path}: {error}", result, set_aside=set_aside)
            continue
        lake.write_arrow(partition.table, rows, path.stem.removeprefix("part-"), **partition.keys)
        result.n_upgraded += 1
    if sealed is not None and resealed:
        _seal(lake, sealed)


def _report_or_move(
    home: Home, path: Path, reason: str, result: Migration, *, set_aside: bool
) -> None:
    if not set_aside:
        result.stuck += (reason,)
        return
    target = home.path / SET_ASIDE / path.relative_to(home.lake)
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)
    result.n_set_aside += 1


def _unseal(lake: Lake, partition: Partition) -> bool:
    """Remove the digests that seal a run's files from its record.

    Return False, and remove nothing, if there are none or they do not fit the files.
    """
    record_folder = Partition("runs", partition.folder.replace(partition.table, "runs", 1))
    record = _with_parts(lake, record_folder)
    if not record.parts or broken_seal(lake.root, record):
        return False
    return _rewrite(lake, record, {})


def _seal(lake: Lake, partition: Partition) -> None:
    record = _with_parts(
        lake, Partition("runs", partition.folder.replace(partition.table, "runs", 1))
    )
    _rewrite(
        lake, record, run_seal({table: lake.folder(table, **partition.keys) for table in SEALED})
    )


def _with_parts(lake: Lake, partition: Partition) -> Partition:
    return list_lake(lake.root)["runs"].get(partition.folder, partition)


def _rewrite(lake: Lake, record: Partition, seal: dict[str, str]) -> bool:
    """Replace the seal of a run's record. Return True if it had one."""
    was_sealed = False
    for part in record.parts:
        with open_parquet(lake.root / record.folder / part.name) as file:
            rows = from_arrow(file.read(), RunRecord)
        was_sealed = was_sealed or any(
            key.startswith(SEAL_PREFIX) for row in rows for key, _ in row.state
        )
        states = [
            {key: value for key, value in row.state if not key.startswith(SEAL_PREFIX)} | seal
            for row in rows
        ]
        updated = [
            row.model_copy(update={"state": tuple(state.items())})
            for row, state in zip(rows, states, strict=True)
        ]
        lake.write_part(
            "runs", updated, part.name.removeprefix("part-").removesuffix(".parquet"), **record.keys
        )
    return was_sealed

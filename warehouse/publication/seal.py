"""Seals of a run's files: only the very files that passed the quality checks are published.

When a run finishes, its record gets a seal: a digest over names and contents of its files, per
table. A publication compares the files with the seal, and withholds a run if a file was changed,
damaged, added or removed since then.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from schemas.content_id import ID_LENGTH
from warehouse.lake import Partition, open_parquet

SEALED = (
    "episodes",
    "run_episodes",
    "test_verdicts",
    "forgery_audit",
    "judge_verdicts",
    "scores",
    "quality_checks",
)
PREFIX = "seal."
"""Prefix of the names under which a record stores its seal, in `state`."""


def table_seal(folder: Path) -> str:
    """Return the digest of one table's parts of a run: 32 hex digits, also without parts.

    Raises:
        OSError: a part cannot be read.
    """
    digest = hashlib.sha256()
    for part in sorted(folder.glob("part-*.parquet")):
        with part.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{part.name} {content}\n".encode())
    return digest.hexdigest()[:ID_LENGTH]


def run_seal(folders: Mapping[str, Path]) -> dict[str, str]:
    """Return names and digests for a record's `state`.

    Args:
        folders: table -> folder of the run's parts.
    """
    return {PREFIX + table: table_seal(folder) for table, folder in folders.items()}


def broken_seal(lake: Path, record: Partition) -> str | None:
    """Return a sentence with the tables that differ from the seal in a run's record.

    Args:
        record: the run's partition in `runs`.

    Returns:
        The sentence. None if no table differs, or there is no seal.
    """
    seal = _stored_seal(lake, record)
    below = record.folder.split("/", 1)[1]
    changed = [
        table for table, digest in seal.items() if table_seal(lake / table / below) != digest
    ]
    if not changed:
        return None
    folders = " and ".join(str(lake / table / below) for table in changed)
    return (
        f"files_unchanged: the files of {', '.join(changed)} changed after the quality "
        "checks. Put the checked files back, or"
        f" remove {folders} and run the same command again to make new ones"
    )


def _stored_seal(lake: Path, record: Partition) -> dict[str, str]:
    seal: dict[str, str] = {}
    for part in record.parts:
        with open_parquet(lake / record.folder / part.name) as file:
            if "state" not in file.schema_arrow.names:
                continue
            for pairs in file.read(columns=["state"])["state"].to_pylist():
                seal |= {
                    p["key"].removeprefix(PREFIX): p["value"]
                    for p in pairs or ()
                    if p["key"].startswith(PREFIX)
                }
    return seal

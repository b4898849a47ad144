"""Copy of the warehouse ahead of a publication, while a night's models answer.

No other step of a publication grows without bound. The copy's name contains the identity of its
original, and it is used only while the original is still the warehouse. Every publication removes
it.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from warehouse.connect import identity, warehouse_path
from warehouse.publication.copying import copy_file

SMALLEST_BYTES = 64 * 2**20
"""Smaller files are not copied ahead: their copy takes an instant."""


def prepare_copy(home: Path) -> Path | None:
    """Copy the warehouse for the next publication.

    Returns:
        The copy, or None if the warehouse is small, or the disk has no space for two more.
    """
    source = warehouse_path(home)
    with suppress(OSError):
        size = source.stat().st_size
        target = prepared_path(home)
        if (
            target is None
            or size < SMALLEST_BYTES
            or shutil.disk_usage(home).free < 2 * size
            or target.exists()
        ):
            return None
        unfinished = target.with_name(f"{source.name}.next-unfinished-{os.getpid()}")
        try:
            copy_file(source, unfinished)
            unfinished.rename(target)  # Fails if another publication has removed it.
            return target
        finally:
            unfinished.unlink(missing_ok=True)
    return None


def prepared_path(home: Path) -> Path | None:
    """Return the path of the copy of the current warehouse, or None without a warehouse."""
    source = warehouse_path(home)
    original = identity(source)
    return (
        None
        if original is None
        else source.with_name(
            "-".join((f"{source.name}.next", *(f"{part:x}" for part in original)))
        )
    )

"""Copies the warehouse ahead of a publication, while a night's models answer. No other step of a publication grows for ever.

The copy is named after its original, and used only while the original is still the warehouse. Every publication removes it.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from warehouse.connect import identity, warehouse_path
from warehouse.publication.copying import copy_file

SMALLEST_BYTES = 64 * 2**20
"""A smaller file is copied in an instant."""


def prepare_copy(home: Path) -> Path | None:
    """Copy the warehouse for the next publication; None where it is small, or the disk has no room for two more of it."""
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
            unfinished.rename(target)  # fails where another publication has removed it meanwhile
            return target
        finally:
            unfinished.unlink(missing_ok=True)
    return None


def prepared_path(home: Path) -> Path | None:
    """Where the copy of the present warehouse is, or would be; None where there is no warehouse."""
    source = warehouse_path(home)
    found = identity(source)
    return (
        None
        if found is None
        else source.with_name("-".join((f"{source.name}.next", *(f"{part:x}" for part in found))))
    )

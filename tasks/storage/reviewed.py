"""Which things of built datasets people review: their ratings may come back any time after the build."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from tasks.storage.home import Home
from tasks.storage.replaced_file import replace_file

_FILE = "reviewed.json"


def note_reviewed(folder: Path, benchmark: str, ids: Collection[str]) -> None:
    """Write down which ids a build's review sheet has; those of its earlier sheets stay known.

    Args:
        folder: the build's.
    """
    if ids:
        known = _ids(folder / _FILE).keys()
        said = {"benchmark": benchmark, "ids": sorted({*known, *ids})}
        replace_file(folder / _FILE, json.dumps(said, indent=1).encode())


def reviewed(home: Home) -> Mapping[str, str]:
    """Id of each thing on a review sheet -> its benchmark."""
    return {name: benchmark for path in sorted(home.builds.glob(f"*/{_FILE}")) for name, benchmark in _ids(path).items()}


def _ids(path: Path) -> dict[str, str]:
    with suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads(path.read_text(encoding="utf-8"))
        return dict.fromkeys(map(str, said["ids"]), str(said["benchmark"]))
    return {}

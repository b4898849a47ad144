"""Which things of built datasets people review: their ratings may come back any time after the build."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.judging.rating_scales import RatingScale, Scales
from tasks.storage.home import Home
from tasks.storage.replaced_file import replace_file

_FILE = "reviewed.json"


@dataclass(frozen=True)
class Reviewed:
    """The benchmark of a thing on a review sheet, and the scales on which it is rated; None where an old sheet kept none."""

    benchmark: str
    scales: Scales | None = None


def note_reviewed(
    folder: Path, benchmark: str, ids: Collection[str], scales: Scales | None = None
) -> None:
    """Write down which ids a build's review sheet has; those of its earlier sheets stay known.

    Args:
        folder: the build's.
        scales: of the sheet's rubrics.
    """
    if ids:
        known = _things(folder / _FILE).keys()
        said: dict[str, Any] = {"benchmark": benchmark, "ids": sorted({*known, *ids})}
        if scales:
            said["scales"] = {
                rubric: {
                    name: {"ends": scale.ends, "words": scale.words}
                    for name, scale in dimensions.items()
                }
                for rubric, dimensions in scales.items()
            }
        replace_file(folder / _FILE, json.dumps(said, indent=1).encode())


def reviewed(home: Home) -> Mapping[str, Reviewed]:
    """Return the things on review sheets by their ids."""
    return {
        name: thing
        for path in sorted(home.builds.glob(f"*/{_FILE}"))
        for name, thing in _things(path).items()
    }


def _things(path: Path) -> dict[str, Reviewed]:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        said = json.loads(path.read_text(encoding="utf-8"))
        scales = {
            rubric: dict(_scales(dimensions))
            for rubric, dimensions in said.get("scales", {}).items()
        } or None
        return dict.fromkeys(map(str, said["ids"]), Reviewed(str(said["benchmark"]), scales))
    return {}


def _scales(dimensions: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, RatingScale]]:
    return [
        (name, RatingScale(tuple(scale["ends"]) if scale["ends"] else None, tuple(scale["words"])))
        for name, scale in dimensions.items()
    ]

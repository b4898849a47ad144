"""Items on the review sheets of built datasets. Ratings of them may arrive long after the build."""

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
    """Benchmark of an item on a review sheet, and its rating scales; None for older sheets."""

    benchmark: str
    scales: Scales | None = None


def note_reviewed(
    folder: Path, benchmark: str, ids: Collection[str], scales: Scales | None = None
) -> None:
    """Store the ids of a build's review sheet. Ids of its earlier sheets are kept.

    Args:
        folder: folder of the build.
        benchmark: benchmark of the items.
        ids: ids of the items on the sheet.
        scales: rating scales of the sheet's rubrics.
    """
    if ids:
        earlier = _items(folder / _FILE).keys()
        content: dict[str, Any] = {"benchmark": benchmark, "ids": sorted({*earlier, *ids})}
        if scales:
            content["scales"] = {
                rubric: {
                    name: {"ends": scale.ends, "words": scale.words}
                    for name, scale in dimensions.items()
                }
                for rubric, dimensions in scales.items()
            }
        replace_file(folder / _FILE, json.dumps(content, indent=1).encode())


def reviewed_items(home: Home) -> Mapping[str, Reviewed]:
    """Return the items on all review sheets by id."""
    return {
        name: item
        for path in sorted(home.builds.glob(f"*/{_FILE}"))
        for name, item in _items(path).items()
    }


def _items(path: Path) -> dict[str, Reviewed]:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        content = json.loads(path.read_text(encoding="utf-8"))
        scales = {
            rubric: dict(_scales(dimensions))
            for rubric, dimensions in content.get("scales", {}).items()
        } or None
        return dict.fromkeys(map(str, content["ids"]), Reviewed(str(content["benchmark"]), scales))
    return {}


def _scales(dimensions: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, RatingScale]]:
    return [
        (name, RatingScale(tuple(scale["ends"]) if scale["ends"] else None, tuple(scale["words"])))
        for name, scale in dimensions.items()
    ]

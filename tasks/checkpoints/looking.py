"""Looks through all sources of a night: what they hold, which of it is whole, and which is the same model twice."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from schemas.content_id import content_id
from schemas.errors import ParleyError
from schemas.run import ModelEndpoint
from tasks.checkpoints.folders import find_folders, find_recordings
from tasks.checkpoints.found import Found, Unread, newest_first, step_of
from tasks.checkpoints.hub import find_revisions
from tasks.checkpoints.record import known_checkpoints
from tasks.checkpoints.source import CheckpointSource
from tasks.storage.file_digests import FileDigests
from tasks.storage.home import Home


@dataclass(frozen=True)
class Sighting:
    """All checkpoints of all sources, newest first, and the sources that could not be read."""

    found: tuple[Found, ...] = ()
    unread: tuple[Unread, ...] = ()


def look(
    home: Home, sources: Sequence[CheckpointSource], folder: Path, now_s: float | None = None
) -> Sighting:
    """Look through the sources. A source that cannot be read keeps no other one back. The first of two has what both hold.

    Args:
        folder: relative paths of sources begin here.
        now_s: the present, seconds since 1970.
    """
    digests = FileDigests(home.file_digests)
    present_s = time.time() if now_s is None else now_s
    found: dict[tuple[str, str], Found] = {}
    unread: list[Unread] = []
    for source in sources:
        try:
            for one in _look_into(source, folder, digests, present_s, home):
                found.setdefault((one.spec, one.path), one)
        except ParleyError as error:
            unread.append(Unread(source, str(error)))
    return Sighting(tuple(_with_copies_named(newest_first(found.values()))), tuple(unread))


def _look_into(
    source: CheckpointSource, folder: Path, digests: FileDigests, now_s: float, home: Home
) -> list[Found]:
    match source.kind:
        case "directory":
            return find_folders(source, _located(folder, source.place), digests, now_s)
        case "recordings":
            return find_recordings(source, _located(folder, source.place), now_s)
        case "repository":
            return find_revisions(source, _taken_before(home, source.place))
        case "endpoint":
            return _served(source)


def _taken_before(home: Home, repository: str) -> list[str]:
    """Commits of a repository that nights took, the latest first."""
    rows = [
        row
        for row in known_checkpoints(home).values()
        if row.kind == "repository" and row.source == repository
    ]
    return [row.digest for row in sorted(rows, key=lambda row: row.found_at, reverse=True)]


def _located(folder: Path, place: str) -> Path:
    return folder / Path(place).expanduser()


def _served(source: CheckpointSource) -> list[Found]:
    from tasks.language.opening import listed_models

    url = source.place.rstrip("/")
    headers = tuple(sorted(source.ask.get("headers", {}).items()))
    names = asyncio.run(
        listed_models(
            ModelEndpoint(base_url=url, key_env=source.ask.get("key_env"), headers=headers)
        )
    )
    return [
        Found(
            source=source,
            spec=f"openai:{name}@{url}",
            path=name,
            family=source.family or name,
            name=name,
            step=step_of(name),
            changed_s=0.0,
            digest=content_id([url, name]),
        )
        for name in dict.fromkeys(names)
        if fnmatch(name, source.only)
    ]


def _with_copies_named(found: Sequence[Found]) -> list[Found]:
    """The oldest of a digest stands for all; the others say so."""
    first: dict[str, Found] = {}
    for one in reversed(found):
        if one.digest:
            first.setdefault(one.digest, one)
    return [
        one if first.get(one.digest, one) is one else replace(one, copy_of=first[one.digest].path)
        for one in found
    ]

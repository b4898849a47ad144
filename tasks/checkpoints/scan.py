"""Scan of a night's sources: their checkpoints, which are complete, and which are copies."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from schemas.content_id import content_id
from schemas.errors import ParleyError
from schemas.run import ModelEndpoint
from tasks.checkpoints.evaluated import known_checkpoints
from tasks.checkpoints.folders import find_folders, find_recordings
from tasks.checkpoints.hub import find_revisions
from tasks.checkpoints.source import (
    CheckpointSource,
    SourceCheckpoint,
    Unread,
    newest_first,
    step_of,
)
from tasks.storage.home import Home
from tasks.storage.home_records import FileDigests


@dataclass(frozen=True)
class Scan:
    """Checkpoints of all sources, newest first, and the sources that could not be read."""

    checkpoints: tuple[SourceCheckpoint, ...] = ()
    unread: tuple[Unread, ...] = ()


def scan_sources(
    home: Home, sources: Sequence[CheckpointSource], folder: Path, now_s: float | None = None
) -> Scan:
    """Scan the sources. If two sources contain a checkpoint, it counts for the first.

    A source that cannot be read does not stop the others.

    Args:
        home: Parley's data folder.
        sources: Sources of the configuration.
        folder: Base folder of relative paths.
        now_s: Present time, seconds since 1970. Default: the clock.
    """
    digests = FileDigests(home.file_digests)
    present_s = time.time() if now_s is None else now_s
    checkpoints: dict[tuple[str, str], SourceCheckpoint] = {}
    unread: list[Unread] = []
    for source in sources:
        try:
            for checkpoint in _scan_source(source, folder, digests, present_s, home):
                checkpoints.setdefault((checkpoint.spec, checkpoint.path), checkpoint)
        except ParleyError as error:
            unread.append(Unread(source, str(error)))
    return Scan(tuple(_with_copies_marked(newest_first(checkpoints.values()))), tuple(unread))


def _scan_source(
    source: CheckpointSource, folder: Path, digests: FileDigests, now_s: float, home: Home
) -> list[SourceCheckpoint]:
    match source.kind:
        case "directory":
            return find_folders(source, _resolve_path(folder, source.place), digests, now_s)
        case "recordings":
            return find_recordings(source, _resolve_path(folder, source.place), now_s)
        case "repository":
            return find_revisions(source, _evaluated_commits(home, source.place))
        case "endpoint":
            return _served_checkpoints(source)


def _evaluated_commits(home: Home, repository: str) -> list[str]:
    """Return the commits of a repository that nights evaluated, latest first."""
    rows = [
        row
        for row in known_checkpoints(home).values()
        if row.kind == "repository" and row.source == repository
    ]
    return [row.digest for row in sorted(rows, key=lambda row: row.found_at, reverse=True)]


def _resolve_path(folder: Path, place: str) -> Path:
    return folder / Path(place).expanduser()


def _served_checkpoints(source: CheckpointSource) -> list[SourceCheckpoint]:
    from tasks.language.opening import listed_models

    url = source.place.rstrip("/")
    headers = tuple(sorted(source.ask.get("headers", {}).items()))
    names = asyncio.run(
        listed_models(
            ModelEndpoint(base_url=url, key_env=source.ask.get("key_env"), headers=headers)
        )
    )
    return [
        SourceCheckpoint(
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


def _with_copies_marked(checkpoints: Sequence[SourceCheckpoint]) -> list[SourceCheckpoint]:
    """Set `copy_of` of each checkpoint to the oldest one with the same digest."""
    first: dict[str, SourceCheckpoint] = {}
    for checkpoint in reversed(checkpoints):
        if checkpoint.digest:
            first.setdefault(checkpoint.digest, checkpoint)
    return [
        checkpoint
        if first.get(checkpoint.digest, checkpoint) is checkpoint
        else replace(checkpoint, copy_of=first[checkpoint.digest].path)
        for checkpoint in checkpoints
    ]

"""Scan of a night's sources: their checkpoints, which are complete, copies or evaluated already."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

from pydantic import ValidationError

from schemas.content_id import content_id
from schemas.errors import ParleyError
from schemas.lake.records import Checkpoint, NightRecord, RunRecord, utc_now
from schemas.night.work import FailedRun
from schemas.run import ModelEndpoint, ModelIdentity, RunSpec
from tasks.checkpoints.folders import find_folders, find_recordings
from tasks.checkpoints.hub import find_revisions
from tasks.checkpoints.source import (
    CheckpointSource,
    SourceCheckpoint,
    Unread,
    step_of,
)
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.publishing import released_because
from tasks.storage.home import Home
from tasks.storage.home_records import FileDigests
from tasks.storage.parquet_store import Lake


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
    newest_first = sorted(
        checkpoints.values(),
        key=lambda checkpoint: (checkpoint.changed_s, checkpoint.step or 0, checkpoint.name),
        reverse=True,
    )
    return Scan(tuple(_with_copies_marked(newest_first)), tuple(unread))


def _scan_source(
    source: CheckpointSource, folder: Path, digests: FileDigests, now_s: float, home: Home
) -> list[SourceCheckpoint]:
    root = folder / Path(source.place).expanduser()
    match source.kind:
        case "directory":
            return find_folders(source, root, digests, now_s)
        case "recordings":
            return find_recordings(source, root, now_s)
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


_ANY_MODEL = ModelIdentity(provider="control", name="anybody")


def finished_runs(home: Home) -> Mapping[str, frozenset[str]]:
    """Return the finished and released runs by a digest of their weights and settings."""
    runs: dict[str, frozenset[str]] = {}
    lake = Lake(home.lake)
    for record in lake.read("runs", RunRecord):
        if record.status == "finished" or released_because(lake, record) is not None:
            try:
                spec = RunSpec.model_validate_json(record.spec_json)
            except ValidationError:
                continue  # A run of an earlier version with other settings.
            key = _evaluation_digest(spec)
            runs[key] = runs.get(key, frozenset()) | {record.run_id}
    return runs


def left_behind(home: Home) -> frozenset[str]:
    """Return the runs that failed or were withheld in the latest night that worked on them."""
    lake, unsuccessful = Lake(home.lake), set[str]()
    failed = {(run.night_id, run.run_id) for run in lake.read("failed_runs", FailedRun)}
    for night in sorted(lake.read("nights", NightRecord), key=lambda night: night.finished_at):
        for run_id in {*night.run_ids, *(work.run_id for work in night.work)}:
            unsuccessful.discard(run_id)
        unsuccessful |= {run_id for night_id, run_id in failed if night_id == night.night_id}
        unsuccessful |= {work.run_id for work in night.work if work.status == "withheld"}
    return frozenset(unsuccessful)


def is_known(plan: RunPlan, finished: Mapping[str, frozenset[str]]) -> bool:
    """Return True if the plan's weights already have this evaluation, with nothing pending.

    The evaluated model may have had another name or another version of the engine.
    """
    runs = finished.get(_evaluation_digest(plan.spec), frozenset())
    return bool(runs - {plan.run_id}) or (plan.run_id in runs and not plan.pending())


def _evaluation_digest(spec: RunSpec) -> str:
    """Return a digest of the spec that identifies the model under test by its weights only.

    If the weights cannot be read, the revision identifies the model.
    """
    weights = spec.subject.weights_digest or spec.subject.revision
    return content_id({"weights": weights, "spec": spec.model_copy(update={"subject": _ANY_MODEL})})


def known_checkpoints(home: Home) -> Mapping[str, Checkpoint]:
    """Return the recorded checkpoints by digest, with their first name and latest path."""
    return {row.digest: row for row in Lake(home.lake).read("checkpoints", Checkpoint)}


def record_checkpoints(home: Home, checkpoints: Iterable[SourceCheckpoint]) -> None:
    """Record the checkpoints that a night evaluates.

    Weights that were recorded before keep their first name, family and time. Path and source are
    updated.
    """
    recorded = known_checkpoints(home)
    for checkpoint in checkpoints:
        before = recorded.get(checkpoint.digest)
        row = _row(checkpoint, before)
        if row != before:
            Lake(home.lake).write_part("checkpoints", [row], row.digest, family=row.family)


def _row(checkpoint: SourceCheckpoint, before: Checkpoint | None) -> Checkpoint:
    return Checkpoint(
        digest=checkpoint.digest,
        family=before.family if before else checkpoint.family,
        step=before.step if before else checkpoint.step,
        model=before.model if before else f"{checkpoint.spec.partition(':')[0]}:{checkpoint.name}",
        kind=checkpoint.source.kind,
        source=checkpoint.source.place,
        path=checkpoint.path,
        changed_at=datetime.fromtimestamp(checkpoint.changed_s, UTC).isoformat(timespec="seconds")
        if checkpoint.changed_s
        else "",
        found_at=before.found_at if before else utc_now(),
    )

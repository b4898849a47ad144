"""Scan of a night's sources: their checkpoints, which are complete, copies or evaluated already.

The revisions of a Hugging Face hub repository are read through the hub's HTTP API. A commit that
changes no weights, tokenizer or template makes no new model. The first commit with the same files
represents all of them.
"""

import asyncio
import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from schemas.content_id import content_id
from schemas.errors import ModelUnavailable, ParleyError
from schemas.lake.records import Checkpoint, NightRecord, RunRecord, utc_now
from schemas.night.work import FailedRun
from schemas.run import ModelEndpoint, ModelIdentity, RunSpec
from tasks.checkpoints.folders import find_folders, find_recordings
from tasks.checkpoints.source import CheckpointSource, SourceCheckpoint, Unread, step_of
from tasks.language.endpoints.request_parts import (
    HUB_VARIABLE,
    KEY_VARIABLE,
    hub_address,
    hub_headers,
)
from tasks.language.weights import model_names, weight_names
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.publishing import released_because
from tasks.storage.home import Home
from tasks.storage.home_records import FileDigests
from tasks.storage.parquet_store import Lake

_TIMEOUT_S = 30.0
Contents = tuple[str, ...]
"""Names and digests of the files that define a model."""


def find_revisions(source: CheckpointSource, earlier: Sequence[str] = ()) -> list[SourceCheckpoint]:
    """Return the branches and tags. If several names point to one commit, return the first.

    Args:
        source: Source with a repository.
        earlier: Commits of the repository that earlier nights evaluated, latest first.

    Raises:
        ModelUnavailable: The hub does not answer or does not know the repository.
    """
    repository = source.repository or ""
    refs = _fetch_json(f"/api/models/{quote(repository)}/refs", repository)
    named: dict[str, str] = {}
    for ref in [*_rows(refs, "branches"), *_rows(refs, "tags")]:
        name, commit = str(ref.get("name", "")), str(ref.get("targetCommit", ""))
        if name and commit and fnmatch(name, source.only):
            named.setdefault(commit, name)
    revisions = [_revision(source, repository, name, commit) for commit, name in named.items()]
    return _with_first_commits(revisions, earlier, lambda commit: _contents(repository, commit))


def _with_first_commits(
    revisions: Iterable[SourceCheckpoint],
    earlier: Sequence[str],
    contents_of: Callable[[str], Contents],
) -> list[SourceCheckpoint]:
    """Set each revision's digest to the first commit of the same model.

    This is a commit that a night evaluated, or else the oldest one.
    """
    first: dict[Contents, str] = {}
    unread = iter(earlier)

    def with_first_commit(revision: SourceCheckpoint) -> SourceCheckpoint:
        if revision.digest in earlier:
            return revision
        contents = contents_of(revision.digest)
        if not contents:
            return replace(revision, digest="", lacks="no weights file exists yet")
        while contents not in first and (commit := next(unread, None)) is not None:
            with suppress(ModelUnavailable):  # The commit is no longer on the hub.
                first.setdefault(contents_of(commit), commit)
        return replace(revision, digest=first.setdefault(contents, revision.digest))

    return [
        with_first_commit(revision)
        for revision in sorted(revisions, key=lambda revision: revision.changed_s)
    ]


def _contents(repository: str, commit: str) -> Contents:
    """Return the model files of a commit, or () if it has no weights."""
    path = f"/api/models/{quote(repository)}/revision/{quote(commit)}?blobs=true"
    files = {
        str(row.get("rfilename")): row for row in _rows(_fetch_json(path, repository), "siblings")
    }
    if not weight_names(files):
        return ()
    return tuple(f"{name} {_digest_of(files[name]) or commit}" for name in model_names(files))


def _digest_of(file: Mapping[str, Any]) -> str:
    lfs = file.get("lfs")
    return str((lfs.get("sha256") if isinstance(lfs, dict) else None) or file.get("blobId") or "")


def _revision(
    source: CheckpointSource, repository: str, name: str, commit: str
) -> SourceCheckpoint:
    history = _fetch_json(
        f"/api/models/{quote(repository)}/commits/{quote(commit)}?limit=1", repository
    )
    return SourceCheckpoint(
        source=source,
        spec=f"vllm:{repository}",
        path=f"{repository}@{name}",
        family=source.family or repository.rsplit("/", 1)[-1],
        name=repository,
        step=step_of(name),
        changed_s=_date_of(history),
        digest=commit,
    )


def _rows(answer: Any, key: str) -> list[dict[str, Any]]:
    rows: Any = answer.get(key) if isinstance(answer, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _date_of(history: Any) -> float:
    """Return the time of the newest commit in seconds since 1970, or 0 if it is unknown."""
    try:
        return datetime.fromisoformat(str(history[0]["date"])).timestamp()
    except (LookupError, TypeError, ValueError):
        return 0.0


def _fetch_json(path: str, repository: str) -> Any:
    hub = hub_address(os.environ)
    request = urllib.request.Request(f"{hub}{path}", headers=hub_headers(os.environ))
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            return json.load(response)
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f"source {repository}: {hub} returned no list of revisions ({type(error).__name__}:"
            f" {error})."
            f" Check the name, the network, {HUB_VARIABLE}, and {KEY_VARIABLE} if the repository is"
            " private"
        ) from None


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

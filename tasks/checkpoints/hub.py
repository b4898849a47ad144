"""Revisions of a Hugging Face hub repository, read through the hub's HTTP API.

A commit that changes no weights, tokenizer or template makes no new model. The first commit with
the same files represents all of them.
"""

import json
import os
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatch
from typing import Any
from urllib.parse import quote

from schemas.errors import ModelUnavailable
from tasks.checkpoints.source import CheckpointSource, SourceCheckpoint, step_of
from tasks.language.endpoints.request_parts import (
    HUB_VARIABLE,
    KEY_VARIABLE,
    hub_address,
    hub_headers,
)
from tasks.language.weights import model_names, weight_names

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

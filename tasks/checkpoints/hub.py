"""Revisions of a repository on the Hugging Face hub, by the requests of its HTTP interface for branches, tags and commits.

A commit that changes no weights, tokenizer or template makes no other model: the first commit with these files stands for all.
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
from tasks.checkpoints.found import Found, step_of
from tasks.checkpoints.source import CheckpointSource
from tasks.language.endpoints.hub_address import (
    HUB_VARIABLE,
    KEY_VARIABLE,
    hub_address,
    hub_headers,
)
from tasks.language.weights import model_names, weight_names

_TIMEOUT_S = 30.0
Contents = tuple[str, ...]
"""Names and digests of the files that make a model."""


def find_revisions(
    source: CheckpointSource, earlier: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> list[Found]:
    """Branches and tags; of several names for one commit the first.

    Args:
        earlier: the repository's commits that nights took before, the latest first.

    Raises:
        ModelUnavailable: the hub does not answer, or does not know the repository.
    """
    repository = source.repository or ""
    refs = _asked(f"/api/models/{quote(repository)}/refs", repository, environ)
    named: dict[str, str] = {}
    for one in [*_rows(refs, "branches"), *_rows(refs, "tags")]:
        name, commit = str(one.get("name", "")), str(one.get("targetCommit", ""))
        if name and commit and fnmatch(name, source.only):
            named.setdefault(commit, name)
    revisions = [
        _revision(source, repository, name, commit, environ) for commit, name in named.items()
    ]
    return _standing_for(revisions, earlier, lambda commit: _contents(repository, commit, environ))


def _standing_for(
    revisions: Iterable[Found], earlier: Sequence[str], contents_of: Callable[[str], Contents]
) -> list[Found]:
    """The revisions, each by the first commit that holds the same model: one taken before, else the oldest."""
    first: dict[Contents, str] = {}
    unread = iter(earlier)

    def standing(one: Found) -> Found:
        if one.digest in earlier:
            return one
        contents = contents_of(one.digest)
        if not contents:
            return replace(one, digest="", lacks="no file of weights is there yet")
        while contents not in first and (commit := next(unread, None)) is not None:
            with suppress(ModelUnavailable):  # it is no longer on the hub
                first.setdefault(contents_of(commit), commit)
        return replace(one, digest=first.setdefault(contents, one.digest))

    return [standing(one) for one in sorted(revisions, key=lambda one: one.changed_s)]


def _contents(repository: str, commit: str, environ: Mapping[str, str]) -> Contents:
    """What a commit holds; empty where no weights are among it."""
    path = f"/api/models/{quote(repository)}/revision/{quote(commit)}?blobs=true"
    files = {
        str(row.get("rfilename")): row
        for row in _rows(_asked(path, repository, environ), "siblings")
    }
    if not weight_names(files):
        return ()
    return tuple(f"{name} {_digest_of(files[name]) or commit}" for name in model_names(files))


def _digest_of(file: Mapping[str, Any]) -> str:
    lfs = file.get("lfs")
    return str((lfs.get("sha256") if isinstance(lfs, dict) else None) or file.get("blobId") or "")


def _revision(
    source: CheckpointSource, repository: str, name: str, commit: str, environ: Mapping[str, str]
) -> Found:
    history = _asked(
        f"/api/models/{quote(repository)}/commits/{quote(commit)}?limit=1", repository, environ
    )
    return Found(
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
    """Seconds since 1970 of the newest commit; 0 where the hub does not say."""
    try:
        return datetime.fromisoformat(str(history[0]["date"])).timestamp()
    except (LookupError, TypeError, ValueError):
        return 0.0


def _asked(path: str, repository: str, environ: Mapping[str, str]) -> Any:
    hub = hub_address(environ)
    asked = urllib.request.Request(f"{hub}{path}", headers=hub_headers(environ))
    try:
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as response:
            return json.load(response)
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f"source {repository}: {hub} gave no list of its revisions ({type(error).__name__}: {error}). Check the name, the"
            f" network, {HUB_VARIABLE}, and {KEY_VARIABLE} where the repository is not public"
        ) from None

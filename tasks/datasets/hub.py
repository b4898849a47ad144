"""Fetch files of a dataset on the Hugging Face hub.

`HF_ENDPOINT` names a mirror and `HF_TOKEN` holds the key.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from schemas.errors import DataUnavailable
from tasks.datasets.download import download, get
from tasks.datasets.matching import expand
from tasks.datasets.public_data import HubSource
from tasks.language.endpoints.request_parts import HUB_VARIABLE, hub_address, hub_headers


def fetch(
    source: HubSource, into: Path, report: Callable[[str], None], environ: Mapping[str, str]
) -> str:
    """Download the source's files into a folder and return their commit.

    Existing files are not downloaded again. Each downloaded file is verified against the digest
    published by the hub.

    Raises:
        DataUnavailable: The hub does not respond, refuses, or lacks a file, or a digest differs.
    """
    hub, headers = hub_address(environ), hub_headers(environ)
    listing = _listing(source, hub, headers)
    stated: dict[str, dict[str, Any]] = {
        str(file.get("rfilename")): file for file in listing.get("siblings", ())
    }
    commit = str(listing.get("sha") or source.revision)
    for place, path in expand(source.files, stated, source.address).items():
        target = into / place
        if not target.exists():
            report(f"{path} from {source.address}")
            download(
                f"{hub}/datasets/{source.hub}/resolve/{quote(commit, safe='')}/{quote(path)}",
                target,
                headers,
            )
            _verify(target, stated[path], source)
    return commit


def _listing(source: HubSource, hub: str, headers: Mapping[str, str]) -> dict[str, Any]:
    address = (
        f"{hub}/api/datasets/{source.hub}/revision/{quote(source.revision, safe='')}?blobs=true"
    )
    try:
        listing = json.loads(get(address, headers))
    except ValueError as error:
        raise DataUnavailable(
            f"{hub} returned no file list of {source.hub} ({HUB_VARIABLE} names another hub)"
        ) from error
    if not isinstance(listing, dict):
        raise DataUnavailable(f"{hub} returned no file list of {source.hub}")
    return listing


def _verify(file: Path, stated: Mapping[str, Any], source: HubSource) -> None:
    """Compare a file with the hub's digest: sha256 of a large file, git blob id of a small one."""
    large = stated.get("lfs")
    expected = (
        str(large.get("sha256") or large.get("oid") or "")
        if isinstance(large, dict)
        else str(stated.get("blobId") or "")
    )
    content_of = (
        hashlib.sha256()
        if isinstance(large, dict)
        else hashlib.sha1(b"blob %d\0" % file.stat().st_size)
    )
    with file.open("rb") as stream:
        while piece := stream.read(1 << 20):
            content_of.update(piece)
    if expected and content_of.hexdigest() != expected:
        file.unlink()
        raise DataUnavailable(
            f"{source.address}: {file.name} has digest {content_of.hexdigest()}, "
            f"but the hub states {expected}"
        )

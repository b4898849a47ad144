"""Fetches files of a dataset on the Hugging Face hub. `HF_ENDPOINT` names a mirror, `HF_TOKEN` holds a key."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from schemas.errors import DataUnavailable
from tasks.benchmarks.public_data import HubSource
from tasks.datasets.download import download, get
from tasks.datasets.matching import expand
from tasks.language.endpoints.hub_address import HUB_VARIABLE, hub_address, hub_headers


def fetch(
    source: HubSource, into: Path, say: Callable[[str], None], environ: Mapping[str, str]
) -> str:
    """Download the source's files into a folder; return the commit that they are of. A file that is there is not fetched again.

    Each file is verified by the digest that the hub states for it.

    Raises:
        DataUnavailable: the hub does not answer, refuses, or has no such file; or a file has another digest.
    """
    hub, headers = hub_address(environ), hub_headers(environ)
    listing = _listing(source, hub, headers)
    stated: dict[str, dict[str, Any]] = {
        str(one.get("rfilename")): one for one in listing.get("siblings", ())
    }
    commit = str(listing.get("sha") or source.revision)
    for place, path in expand(source.files, stated, source.address).items():
        target = into / place
        if not target.exists():
            say(f"{path} from {source.address}")
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
        found = json.loads(get(address, headers))
    except ValueError as error:
        raise DataUnavailable(
            f"{hub} gave no list of the files of {source.hub} ({HUB_VARIABLE} names another hub)"
        ) from error
    if not isinstance(found, dict):
        raise DataUnavailable(f"{hub} gave no list of the files of {source.hub}")
    return found


def _verify(file: Path, stated: Mapping[str, Any], source: HubSource) -> None:
    """Compare a file with the hub's own digest of it: sha256 of a large file, git's of a small one."""
    large = stated.get("lfs")
    wanted = (
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
    if wanted and content_of.hexdigest() != wanted:
        file.unlink()
        raise DataUnavailable(
            f"{source.address}: {file.name} has digest {content_of.hexdigest()}, not {wanted}, which the hub states"
        )

"""Download one file over HTTP, or the files of a dataset on the Hugging Face hub.

An interrupted download is resumed. `HF_ENDPOINT` names a mirror of the hub and `HF_TOKEN` holds the
key.
"""

import hashlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlsplit

from schemas.errors import DataUnavailable
from tasks.datasets.git import expand
from tasks.datasets.public_data import HubSource
from tasks.language.endpoints.request_parts import HUB_VARIABLE, hub_address, hub_headers

PARTIAL = ".partial"
"""Suffix of the file name of an incomplete download."""
PAUSE_S = 1.0
"""Pause in seconds before the second attempt. Each further pause is twice as long."""
_ATTEMPTS = 5
_TIMEOUT_S = 60.0
_PIECE = 1 << 20
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses after which the same request may succeed later."""


class _Broken(Exception):
    """Error for a transfer that ended too early or was refused temporarily."""


def download(url: str, to: Path, headers: Mapping[str, str]) -> None:
    """Download a file, resuming from the bytes that an earlier call stored.

    Args:
        url: Address of the file.
        to: Destination file.
        headers: Headers of the first request, such as a key. They are not sent to another host
            after a redirect.

    Raises:
        DataUnavailable: The server refused, or five attempts in a row received no byte.
    """
    partial = to.with_name(f"{to.name}{PARTIAL}")
    to.parent.mkdir(parents=True, exist_ok=True)
    failures = 0
    while True:
        before = _size(partial)
        try:
            _continue(url, partial, headers)
            break
        except (
            _Broken,
            urllib.error.URLError,
            HTTPException,
            TimeoutError,
            ConnectionError,
        ) as error:
            _refuse(url, error)
            failures = failures + 1 if _size(partial) <= before else 1
            if failures == _ATTEMPTS:
                raise DataUnavailable(f"{_shown(url)}: {_reason(error)}") from error
            time.sleep(PAUSE_S * 2 ** (failures - 1))
    os.replace(partial, to)


def get(url: str, headers: Mapping[str, str]) -> bytes:
    """Return the body of the response from an address.

    Raises:
        DataUnavailable: The server refused or did not respond.
    """
    try:
        with _open(url, headers) as response:
            return response.read()
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        _refuse(url, error)
        raise DataUnavailable(f"{_shown(url)}: {_reason(error)}") from error


class _SameHostKeepsHeaders(urllib.request.HTTPRedirectHandler):
    """Redirect handler that sends the caller's headers, such as a key, to the same host only."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and urlsplit(newurl).netloc == urlsplit(req.full_url).netloc:
            for name, value in req.unredirected_hdrs.items():
                request.add_unredirected_header(name, value)
        return request


def _open(url: str, headers: Mapping[str, str], start: int = 0) -> HTTPResponse:
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    return urllib.request.build_opener(_SameHostKeepsHeaders).open(request, timeout=_TIMEOUT_S)


def _continue(url: str, partial: Path, headers: Mapping[str, str]) -> None:
    start = _size(partial)
    try:
        response = _open(url, headers, start)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        total = (error.headers.get("Content-Range") or "").rpartition("/")[2]
        if total == str(start):
            return
        partial.unlink()  # longer than the remote file: left from another file
        raise _Broken("the server cannot send the rest of the file") from error
    with response:
        if response.status != 206 or not (response.headers.get("Content-Range") or "").startswith(
            f"bytes {start}-"
        ):
            start = 0
        length = response.headers.get("Content-Length")
        with partial.open("r+b" if start else "wb") as out:
            out.seek(start)
            while piece := response.read1(_PIECE):
                out.write(piece)
            out.truncate()
            n_received = out.tell() - start
    if length is not None and n_received != int(length):
        raise _Broken(f"the transfer broke off after {n_received:,} of {int(length):,} bytes")


def _refuse(url: str, error: Exception) -> None:
    """Raise `DataUnavailable` if a retry cannot help."""
    if isinstance(error, urllib.error.HTTPError) and error.code not in _LATER:
        why = {
            401: ": it requires a key",
            403: ": it requires a key, or acceptance of its terms",
            404: ": the file does not exist",
        }
        raise DataUnavailable(
            f"{_shown(url)} answered {error.code}{why.get(error.code, '')}"
        ) from error


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return f"{cause}" if isinstance(cause, _Broken) else f"{type(cause).__name__}: {cause}"


def _shown(url: str) -> str:
    """Return the address without its query, which may hold a signature."""
    return url.partition("?")[0]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


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

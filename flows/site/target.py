"""Writing of a home's site to a target.

A target is a folder, or any location that fsspec reaches, such as `s3://bucket/site`.
"""

import hashlib
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from schemas.base import Frozen
from schemas.errors import ConfigError, ServerUnavailable
from tasks.storage.home import Home
from warehouse.connect import SITE

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger("parley.site")
MANIFEST = "parley-site.json"
"""File in a store with the digest of each page. Only pages that changed are sent."""
_READ_ONLY = ("http", "https")
_AT_ONCE = 64
_FIRST_PAGE = "index.html"


class SiteTarget(Frozen):
    """Address of a site for readers, and the location that a night writes it to.

    Prefect shows it as a parameter, so no URL may contain a password.
    """

    url: str = Field(min_length=1)
    """Address of the site's folder, to which messages and artifacts link."""
    target: str | None = None
    """Folder or fsspec URL to write to, if `url` is only the address for readers."""

    @field_validator("url", "target")
    @classmethod
    def _holds_no_password(cls, value: str | None) -> str | None:
        if value is not None and "@" in urlsplit(value).netloc:
            raise ConfigError(
                "site_url and site_target are shown in messages: they must not contain a "
                "user name or password"
            )
        return value

    @property
    def place(self) -> str | None:
        """Return the folder or URL to write to. None: only the home's own folder is written."""
        return self.target or (None if urlsplit(self.url).scheme in _READ_ONLY else self.url)


def write_to_target(home: Home, site: SiteTarget) -> dict[str, int]:
    """Write the site to the home's own folder, then to the target.

    Returns:
        The counts of `write_site`.

    Raises:
        ConfigError: fsspec does not know the location, or its package is missing.
        ServerUnavailable: the location does not accept the pages.
        UsageError: the warehouse cannot be read, or a folder contains something else than a Parley
            site.
    """
    from flows.site.writing import write_site

    place = site.place
    folder = _local_folder(place)
    if place is not None and folder is not None:
        return write_site(home, folder)
    counts = write_site(home, home.path / SITE)
    if place is not None:
        n_sent = _send(home.path / SITE, place)
        _log.info("Wrote %d changed pages to %s", n_sent, place)
    return counts


def _local_folder(place: str | None) -> Path | None:
    if place is None:
        return None
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(parts.path)
    return None if "://" in place else Path(place).expanduser().absolute()


def _send(folder: Path, place: str) -> int:
    """Send the pages that changed, `index.html` last, and remove the deleted pages."""
    fs, root = _file_system(place)
    now = {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }
    digests = {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(now.items())
    }
    try:
        before = _manifest(fs, f"{root}/{MANIFEST}")
        changed = sorted(
            (name for name in digests if before.get(name) != digests[name]),
            key=lambda name: (name == _FIRST_PAGE, name),
        )
        for start in range(0, len(changed), _AT_ONCE):
            part = changed[start : start + _AT_ONCE]
            for parent in {f"{root}/{name}".rpartition("/")[0] for name in part}:
                fs.makedirs(parent, exist_ok=True)
            fs.pipe({f"{root}/{name}": now[name].read_bytes() for name in part})
        gone = [f"{root}/{name}" for name in before if name not in digests]
        if gone:
            fs.rm(gone)
        fs.pipe(f"{root}/{MANIFEST}", json.dumps(digests).encode())
    except Exception as error:  # Each kind of store has errors of its own.
        raise ServerUnavailable(
            f"the site could not be written to {place}: {type(error).__name__}: {error}"
        ) from error
    return len(changed)


def _file_system(place: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    try:
        fs, root = url_to_fs(place, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"the site cannot be written to {place!r}: {error}") from None
    return fs, str(root).rstrip("/")


def _manifest(fs: Any, path: str) -> "Mapping[str, str]":
    if not fs.exists(path):
        return {}
    digests = json.loads(fs.cat_file(path))
    return {str(name): str(digest) for name, digest in digests.items()}

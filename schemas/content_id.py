"""Content ids: digests of canonical JSON (docs/explanation/ids.md).

Equal content gives equal ids in every process, on every machine and under every hash seed. Values
without one canonical form (sets, NaN, bytes, arbitrary objects) are refused.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel

from schemas.base import fields_of_id

ID_LENGTH = 32
"""Number of hex digits that an id takes from a sha256: 128 bits."""


_SCALARS = frozenset((str, int, bool, type(None)))
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_Path = tuple["_Path | None", str]
"""Path to a value: the path to its container, and the last step. Messages alone render it."""


def _plain(value: Any, path: _Path) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, (list, tuple)):
        return [
            item if type(item) in _SCALARS else _plain(item, (path, f"[{i}]"))
            for i, item in enumerate(value)
        ]
    if isinstance(value, BaseModel):
        return {
            name: _plain(getattr(value, name), (path, f".{name}")) for name in fields_of_id(value)
        }
    if isinstance(value, Enum):
        return _plain(value.value, path)
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{_rendered(path)} is {value}: only finite numbers have a content id")
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(
                    f"{_rendered(path)} has the key {key!r}: keys of canonical JSON are strings"
                )
        return {key: _plain(item, (path, f".{key}")) for key, item in value.items()}
    raise TypeError(
        f"{_rendered(path)} is a {type(value).__name__}, which has no canonical JSON form. "
        "Use a string, number, tuple or mapping"
    )


def _rendered(path: _Path) -> str:
    container, step = path
    return step if container is None else _rendered(container) + step


def canonical_json(value: Any) -> str:
    """Render `value` as canonical JSON.

    Keys are sorted by code point, and there is no white space. Text stays as it is (UTF-8, not
    normalised). A float with an integral value is written as that integer, so `1` and `1.0` are the
    same temperature.

    Raises:
        TypeError: `value` contains a set, bytes or another value without a canonical form, or a key
            that is not a string.
        ValueError: `value` contains a number that is not finite.
    """
    return _ENCODER.encode(_plain(value, (None, "value")))


def content_id(value: Any) -> str:
    """Return the hex digest (32 digits) of `canonical_json(value)`.

    A lone surrogate and its replacement character give different digests.
    """
    text = canonical_json(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:ID_LENGTH]


_PLACEHOLDER = "\ue000 a text of many \ue000"


def content_ids(make: Callable[[str], Any], texts: Iterable[str]) -> Iterator[str]:
    """Yield `content_id(make(text))` of each text.

    The rest of the value is rendered and digested once.

    Args:
        make: puts the text into a value, as one of its strings.
    """
    head, tail = (
        part.encode("utf-8", "surrogatepass")
        for part in canonical_json(make(_PLACEHOLDER)).split(
            canonical_json(_PLACEHOLDER), maxsplit=1
        )
    )
    start = hashlib.sha256(head)
    for text in texts:
        digest = start.copy()
        digest.update(canonical_json(text).encode("utf-8", "surrogatepass") + tail)
        yield digest.hexdigest()[:ID_LENGTH]


def rows_id(rows: Iterable[Any]) -> str:
    """Return `content_id(list(rows))` without holding all rows in memory."""
    digest, separator = hashlib.sha256(b"["), b""
    for row in rows:
        digest.update(separator + canonical_json(row).encode("utf-8", "surrogatepass"))
        separator = b","
    digest.update(b"]")
    return digest.hexdigest()[:ID_LENGTH]


def text_digest(text: str) -> str:
    """Return the hex digest (32 digits) of a text, such as a prompt or a file read as text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:ID_LENGTH]

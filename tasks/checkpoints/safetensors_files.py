"""Whether files of weights in safetensors' format are whole, told by their headers and their index alone.

A file is 8 bytes with the header's length (little endian), the header (JSON: tensor -> its type, shape and `data_offsets`), and
the tensors' bytes up to the largest offset. Source: the format's description in the safetensors repository.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
_LENGTH_BYTES = 8
_LONGEST_HEADER = 100_000_000
"""The format's own bound."""


@dataclass(frozen=True)
class Header:
    """What one file says of itself."""

    tensors: frozenset[str]
    data_bytes: int


class NotWhole(Exception):
    """A file, or a set of files, that something is missing of; says what."""


def read_header(path: Path) -> Header:
    """Header of a file whose size is the one that its header speaks of.

    Raises:
        NotWhole: it is cut off, or is no such file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if size < _LENGTH_BYTES or length > min(size - _LENGTH_BYTES, _LONGEST_HEADER):
            raise NotWhole(f"{path.name} has {size} bytes, fewer than its header")
        text = file.read(length)
    try:
        described: dict[str, Any] = json.loads(text)
        tensors = {name: value for name, value in described.items() if name != "__metadata__"}
        end = max((int(value["data_offsets"][1]) for value in tensors.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise NotWhole(f"{path.name} is no safetensors file: its header cannot be read") from None
    if size != _LENGTH_BYTES + length + end:
        raise NotWhole(
            f"{path.name} has {size} bytes, its header speaks of {_LENGTH_BYTES + length + end}"
        )
    return Header(frozenset(tensors), end)


def require_whole(folder: Path, files: Sequence[Path]) -> None:
    """Check the files of weights, and the index where there is one.

    Args:
        files: the folder's files of weights.

    Raises:
        NotWhole: a file is missing or cut off, or index and files do not agree.
    """
    headers = {path.name: read_header(path) for path in files}
    index = folder / INDEX
    if not index.exists():
        if len(files) > 1:
            raise NotWhole(f"{len(files)} files of weights and no {INDEX}")
        return
    try:
        stated: Any = json.loads(index.read_text(encoding="utf-8"))
        places: dict[str, str] = dict(stated["weight_map"])
        total = (stated.get("metadata") or {}).get("total_size")
        if not places or not all(type(name) is str for name in places.values()):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NotWhole(
            f"{INDEX} cannot be read: its `weight_map` is to say which file holds each tensor"
        ) from None
    _require_agreement(places, total, headers)


def _require_agreement(
    places: Mapping[str, str], total: object, headers: Mapping[str, Header]
) -> None:
    for name in sorted(set(places.values())):
        if name not in headers:
            raise NotWhole(f"{name} is missing, {INDEX} names it")
    for tensor, name in sorted(places.items()):
        if tensor not in headers[name].tensors:
            raise NotWhole(f"{name} lacks the tensor {tensor}, {INDEX} says it is there")
    found = sum(headers[name].data_bytes for name in set(places.values()))
    if isinstance(total, (int, float)) and total != found:
        raise NotWhole(f"the files hold {found} bytes of tensors, {INDEX} speaks of {total:.0f}")

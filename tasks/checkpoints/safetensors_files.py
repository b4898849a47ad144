"""Completeness check of safetensors files, from their headers and index alone.

A file is 8 bytes with the header's length (little endian), the header (JSON: tensor -> its type,
shape and `data_offsets`), and the tensors' bytes up to the largest offset. Source: the format's
description in the safetensors repository.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
_LENGTH_BYTES = 8
_LONGEST_HEADER = 100_000_000
"""Maximum header length in bytes. The format defines it."""


@dataclass(frozen=True)
class Header:
    """Tensors of one file, and their size in bytes, as its header states them."""

    tensors: frozenset[str]
    data_bytes: int


class NotWhole(Exception):
    """Error for an incomplete file or set of files. The message says which part is missing."""


def read_header(path: Path) -> Header:
    """Return the header of a file. Check that the file has the size that its header states.

    Raises:
        NotWhole: The file is cut off or is not a safetensors file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if size < _LENGTH_BYTES or length > min(size - _LENGTH_BYTES, _LONGEST_HEADER):
            raise NotWhole(f"{path.name} has {size} bytes, fewer than its header needs")
        text = file.read(length)
    try:
        described: dict[str, Any] = json.loads(text)
        tensors = {name: value for name, value in described.items() if name != "__metadata__"}
        end = max((int(value["data_offsets"][1]) for value in tensors.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise NotWhole(
            f"{path.name} is not a safetensors file: its header cannot be read"
        ) from None
    if size != _LENGTH_BYTES + length + end:
        raise NotWhole(
            f"{path.name} has {size} bytes, but its header states {_LENGTH_BYTES + length + end}"
        )
    return Header(frozenset(tensors), end)


def require_whole(folder: Path, files: Sequence[Path]) -> None:
    """Check the weights files, and the index if there is one.

    Args:
        folder: Folder of the checkpoint.
        files: Weights files in the folder.

    Raises:
        NotWhole: A file is missing or cut off, or the index and the files disagree.
    """
    headers = {path.name: read_header(path) for path in files}
    index = folder / INDEX
    if not index.exists():
        if len(files) > 1:
            raise NotWhole(f"there are {len(files)} weights files but no {INDEX}")
        return
    try:
        stated: Any = json.loads(index.read_text(encoding="utf-8"))
        places: dict[str, str] = dict(stated["weight_map"])
        total = (stated.get("metadata") or {}).get("total_size")
        if not places or not all(type(name) is str for name in places.values()):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NotWhole(
            f"{INDEX} cannot be read: its `weight_map` must map each tensor to a file"
        ) from None
    _require_agreement(places, total, headers)


def _require_agreement(
    files_of_tensors: Mapping[str, str], total: object, headers: Mapping[str, Header]
) -> None:
    for name in sorted(set(files_of_tensors.values())):
        if name not in headers:
            raise NotWhole(f"{name} is listed in {INDEX} but does not exist")
    for tensor, name in sorted(files_of_tensors.items()):
        if tensor not in headers[name].tensors:
            raise NotWhole(f"{name} lacks the tensor {tensor} that {INDEX} lists in it")
    n_bytes = sum(headers[name].data_bytes for name in set(files_of_tensors.values()))
    if isinstance(total, (int, float)) and total != n_bytes:
        raise NotWhole(
            f"the files contain {n_bytes} bytes of tensors, but {INDEX} states {total:.0f}"
        )

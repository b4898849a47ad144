"""Sources on disk: folders of weights, and recordings.

Headers and index alone show if safetensors files are complete. A file is 8 bytes with the header's
length (little endian), the header (JSON: tensor -> its type, shape and `data_offsets`), and the
tensors' bytes up to the largest offset. Source: the format's description in the safetensors
repository.
"""

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from tasks.checkpoints.source import CheckpointSource, SourceCheckpoint, step_of
from tasks.language.recorded_model import load_recording, recording_name
from tasks.language.weights import weight_files, weights_digest
from tasks.storage.home_records import FileDigests

_DEPTH = 4
_CONFIG = "config.json"
_RECORDINGS = (".jsonl", ".jsonl.gz")
_LOST = "it was removed while it was being read"


def find_folders(
    source: CheckpointSource, root: Path, digests: FileDigests, now_s: float
) -> list[SourceCheckpoint]:
    """Return the folders with weights below a folder, at most four levels deep.

    Raises:
        UsageError: The folder does not exist or cannot be read.
    """
    _require_folder(root)
    return [
        _checkpoint(source, folder, digests, now_s)
        for folder in _folders(root, source.only)
        if _is_wanted(source, folder)
    ]


def find_recordings(source: CheckpointSource, root: Path, now_s: float) -> list[SourceCheckpoint]:
    """Return the recordings directly in a folder.

    Raises:
        UsageError: The folder does not exist or cannot be read.
    """
    _require_folder(root)
    return [
        _recording(source, root, path, now_s)
        for path in sorted(root.iterdir())
        if path.name.endswith(_RECORDINGS) and path.is_file() and fnmatch(path.name, source.only)
    ]


def _require_folder(root: Path) -> None:
    if not os.access(root, os.R_OK | os.X_OK) or not root.is_dir():
        raise UsageError(
            f"source {root}: the folder does not exist or is not readable. Is its disk mounted?"
        )


def _folders(root: Path, only: str) -> Iterator[Path]:
    """Yield the matching folders, the root included and hidden ones excluded, each once.

    A link is followed only if no other path leads to its folder.
    """
    yielded, opened = set[Path](), set[Path]()
    real, links = deque([(root, _DEPTH)]), deque[tuple[Path, int]]()
    while real or links:
        folder, depth = (real or links).popleft()
        target = folder.resolve()
        if target not in yielded and fnmatch(folder.name, only):
            yielded.add(target)
            yield folder
        if depth and target not in opened:
            opened.add(target)
            for entry in _subfolders(folder):
                (links if entry.is_symlink() else real).append((Path(entry.path), depth - 1))


def _subfolders(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return sorted(
            (e for e in os.scandir(folder) if not e.name.startswith(".") and os.path.isdir(e)),
            key=lambda e: e.name,
        )
    except OSError:
        return []


def _is_wanted(source: CheckpointSource, folder: Path) -> bool:
    marked = source.marker is not None and (folder / source.marker).is_file()
    try:
        return (
            marked
            or (folder / INDEX).is_file()
            or ((folder / _CONFIG).is_file() and bool(weight_files(folder)))
        )
    except OSError:
        return False


def _checkpoint(
    source: CheckpointSource, folder: Path, digests: FileDigests, now_s: float
) -> SourceCheckpoint:
    step = step_of(folder.name)
    family = source.family or (folder.parent.name if step is not None else folder.name)
    digest, lacks, changed_s = "", "", 0.0
    try:
        changed_s = _last_change(folder)
        step = step if step is not None else _step_of_trainer(folder)
        lacks = _missing_part(source, folder) or _recent_change(source, changed_s, now_s)
        digest = "" if lacks else weights_digest(folder, digests)
        if not lacks and _last_change(folder) != changed_s:
            digest, lacks = "", "it changed while its digest was computed"
    except OSError:
        digest, lacks = "", _LOST
    return SourceCheckpoint(
        source=source,
        spec=f"vllm:{folder.resolve()}",
        path=str(folder.resolve()),
        family=family,
        name=family if family == folder.name else f"{family}/{folder.name}",
        step=step,
        changed_s=changed_s,
        digest=digest,
        lacks=lacks,
    )


def _last_change(folder: Path) -> float:
    """Return the modification time (seconds since 1970) of the folder or its newest file.

    The folder's own time changes when a file is added or removed.
    """
    times = [folder.stat().st_mtime_ns, *(entry.stat().st_mtime_ns for entry in os.scandir(folder))]
    return max(times) / 1e9


def _missing_part(source: CheckpointSource, folder: Path) -> str:
    if source.marker is not None and not (folder / source.marker).is_file():
        return f"{source.marker} does not exist yet"
    files = weight_files(folder)
    if not files:
        return "no weights file exists yet"
    is_safetensors = files[0].suffix == ".safetensors"
    if source.marker is None and not (folder / _CONFIG).is_file():
        return f"{_CONFIG} does not exist yet"
    if source.marker is None and not is_safetensors:
        return (
            f"{files[0].suffix} files do not show whether they are complete;"
            " set `marker` to the name of a file that is written last"
        )
    try:
        if source.marker is None:
            require_whole(folder, files)
        elif is_safetensors:
            for path in files:
                read_header(path)
    except NotWhole as error:
        return str(error)
    return ""


def _recent_change(source: CheckpointSource, changed_s: float, now_s: float) -> str:
    quiet_min = (now_s - changed_s) / 60
    if quiet_min >= source.quiet_minutes:
        return ""
    return (
        f"it changed {max(0.0, quiet_min):.0f} minutes ago;"
        f" it is evaluated after {source.quiet_minutes:g} minutes without a change"
    )


def _step_of_trainer(folder: Path) -> int | None:
    """Return `global_step` of the trainer's state file, or None without one."""
    try:
        state: Any = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        return int(state["global_step"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _recording(source: CheckpointSource, root: Path, path: Path, now_s: float) -> SourceCheckpoint:
    name = recording_name(path)
    family = source.family or root.name
    digest, lacks, changed_s = "", "", 0.0
    try:
        changed_s = path.stat().st_mtime
        lacks = _recent_change(source, changed_s, now_s)
        digest = "" if lacks else load_recording(path).digest
    except OSError:
        lacks = _LOST
    except UsageError as error:
        lacks = str(error)
    return SourceCheckpoint(
        source=source,
        spec=f"recorded:{path.resolve()}",
        path=str(path.resolve()),
        family=family,
        name=f"{family}/{name}",
        step=step_of(name),
        changed_s=changed_s,
        digest=digest,
        lacks=lacks,
    )


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

"""Sources on disk: folders of weights, and recordings."""

import json
import os
from collections import deque
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from tasks.checkpoints.found import Found, step_of
from tasks.checkpoints.safetensors_files import INDEX, NotWhole, read_header, require_whole
from tasks.checkpoints.source import CheckpointSource
from tasks.language.recorded_model import load_recording, recording_name
from tasks.language.weights import weight_files, weights_digest
from tasks.storage.file_digests import FileDigests

_DEPTH = 4
_CONFIG = "config.json"
_RECORDINGS = (".jsonl", ".jsonl.gz")
_LOST = "went away while it was looked at"


def find_folders(
    source: CheckpointSource, root: Path, digests: FileDigests, now_s: float
) -> list[Found]:
    """Folders with weights below a folder, at any depth up to four.

    Raises:
        UsageError: there is no such folder, or it cannot be read.
    """
    _require_folder(root)
    return [
        _checkpoint(source, folder, digests, now_s)
        for folder in _folders(root, source.only)
        if _is_wanted(source, folder)
    ]


def find_recordings(source: CheckpointSource, root: Path, now_s: float) -> list[Found]:
    """Recordings directly in a folder.

    Raises:
        UsageError: there is no such folder, or it cannot be read.
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
            f"source {root}: no such folder, or no right to read it. Is its disk mounted?"
        )


def _folders(root: Path, only: str) -> Iterator[Path]:
    """Folders of such names, the given one and those below it, hidden ones left out.

    Each is given once. A link stands for a folder that nothing else leads to.
    """
    given, opened = set[Path](), set[Path]()
    real, links = deque([(root, _DEPTH)]), deque[tuple[Path, int]]()
    while real or links:
        folder, depth = (real or links).popleft()
        target = folder.resolve()
        if target not in given and fnmatch(folder.name, only):
            given.add(target)
            yield folder
        if depth and target not in opened:
            opened.add(target)
            for entry in _below(folder):
                (links if entry.is_symlink() else real).append((Path(entry.path), depth - 1))


def _below(folder: Path) -> list[os.DirEntry[str]]:
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
) -> Found:
    step = step_of(folder.name)
    family = source.family or (folder.parent.name if step is not None else folder.name)
    digest, lacks, changed_s = "", "", 0.0
    try:
        changed_s = _last_change(folder)
        step = step if step is not None else _trainers_step(folder)
        lacks = _missing(source, folder) or _unrest(source, changed_s, now_s)
        digest = "" if lacks else weights_digest(folder, digests)
        if not lacks and _last_change(folder) != changed_s:
            digest, lacks = "", "it changed while its digest was made"
    except OSError:
        digest, lacks = "", _LOST
    return Found(
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
    """Seconds since 1970 of the newest file, or of the folder itself, which a file's coming and going changes."""
    times = [folder.stat().st_mtime_ns, *(entry.stat().st_mtime_ns for entry in os.scandir(folder))]
    return max(times) / 1e9


def _missing(source: CheckpointSource, folder: Path) -> str:
    if source.marker is not None and not (folder / source.marker).is_file():
        return f"{source.marker} is not there yet"
    files = weight_files(folder)
    if not files:
        return "no file of weights is there yet"
    is_safetensors = files[0].suffix == ".safetensors"
    if source.marker is None and not (folder / _CONFIG).is_file():
        return f"{_CONFIG} is not there yet"
    if source.marker is None and not is_safetensors:
        return f"nothing tells whether its {files[0].suffix} files are whole; name the file that does by `marker`"
    try:
        if source.marker is None:
            require_whole(folder, files)
        elif is_safetensors:
            for path in files:
                read_header(path)
    except NotWhole as error:
        return str(error)
    return ""


def _unrest(source: CheckpointSource, changed_s: float, now_s: float) -> str:
    quiet_min = (now_s - changed_s) / 60
    if quiet_min >= source.quiet_minutes:
        return ""
    return f"it changed {max(0.0, quiet_min):.0f} minutes ago; it is taken after {source.quiet_minutes:g} quiet ones"


def _trainers_step(folder: Path) -> int | None:
    """`global_step` of the trainer's state, where it left one."""
    try:
        state: Any = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        return int(state["global_step"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _recording(source: CheckpointSource, root: Path, path: Path, now_s: float) -> Found:
    name = recording_name(path)
    family = source.family or root.name
    digest, lacks, changed_s = "", "", 0.0
    try:
        changed_s = path.stat().st_mtime
        lacks = _unrest(source, changed_s, now_s)
        digest = "" if lacks else load_recording(path).digest
    except OSError:
        lacks = _LOST
    except UsageError as error:
        lacks = str(error)
    return Found(
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

"""Task files of a dataset version and their rows."""

import re
from collections.abc import Iterator
from pathlib import Path

from schemas.errors import SourceUnreadable
from tasks.benchmarks.convcode.raw_row import COLUMNS
from tasks.benchmarks.convcode.sources import SOURCES, ProblemSource
from tasks.benchmarks.raw_rows import Fault, Line, read_lines, read_parquet, version_key

LOGS = "logs"
"""Name of the folder with a reference model's logs, in the folder of the task files."""
_SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".json", ".json.gz")
_RELEASE = re.compile(r"v\d+(?:\.\d+)+(?:_[a-z]+)?")


def task_files(source: Path, dataset_version: str) -> tuple[Path, ...]:
    """Return the task files in a file or folder, sorted.

    Raises:
        SourceUnreadable: The path does not exist, has no task file in any expected place, or has
            files of several releases, which contain the same tasks.
    """
    dataset = SOURCES[dataset_version]
    if source.is_file():
        if not source.name.endswith(_SUFFIXES):
            raise SourceUnreadable(
                f"{source} is not a {', '.join(_SUFFIXES)} file. Name such a file or its folder"
            )
        return (source,)
    if not source.is_dir():
        raise SourceUnreadable(
            f"{source} does not exist. Name the folder of {dataset.title}'s files, or one of them"
        )
    for folder in dataset.folders:
        if files := _files_in(source / folder, dataset):
            return _one_release(files)
    folders = ", ".join(str(source / folder) for folder in dataset.folders)
    raise SourceUnreadable(
        f"{source} has no {dataset.title} task file ({', '.join(dataset.patterns)}[.gz])"
        f" in {folders}. Name the folder of such files, or one of them."
        f" --dataset-version ({dataset_version}) determines how they are read"
    )


def _files_in(folder: Path, dataset: ProblemSource) -> tuple[Path, ...]:
    plain = {path for pattern in dataset.patterns for path in folder.glob(pattern)}
    packed = {
        path
        for pattern in dataset.patterns
        for path in folder.glob(f"{pattern}.gz")
        if path.with_suffix("") not in plain
    }
    return tuple(sorted(plain | packed))


def _one_release(files: tuple[Path, ...]) -> tuple[Path, ...]:
    releases = {match.group() if (match := _RELEASE.search(path.name)) else "" for path in files}
    if len(releases) == 1:
        return files
    newest = max(files, key=lambda path: version_key(path.name))
    raise SourceUnreadable(
        f"{newest.parent} has several releases of the same tasks"
        f" ({', '.join(path.name for path in files)})."
        f" Name one file, for example --data {newest}"
    )


def read_rows(path: Path) -> Iterator[Line | Fault]:
    """Yield the rows of a task file. A fault ends the iteration."""
    return read_parquet(path, COLUMNS) if path.name.endswith(".parquet") else read_lines(path)

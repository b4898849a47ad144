"""Finds CodeIF-Bench's task files."""

from pathlib import Path

from schemas.errors import SourceUnreadable
from tasks.benchmarks.raw_lines import SUFFIXES

TASK_FILES = "L_1_part_1*.jsonl"


def task_files(source: Path, dataset_version: str) -> tuple[Path, ...]:
    """The files to stage from a file or folder, sorted.

    Raises:
        SourceUnreadable: there is no such path, or no task file in any place where one is looked for.
    """
    if source.is_file():
        if not source.name.endswith(SUFFIXES):
            raise SourceUnreadable(f"{source} is not a .jsonl or .jsonl.gz file. Give such a file, or the folder that holds it")
        return (source,)
    if not source.is_dir():
        raise SourceUnreadable(f"{source} does not exist. Give CodeIF-Bench's folder, or one of its .jsonl[.gz] files")
    places = _places(source, dataset_version)
    for place in places:
        if files := _files_in(place):
            return files
    listed = ", ".join(str(place) for place in places)
    raise SourceUnreadable(
        f"{source} holds no CodeIF-Bench {dataset_version} task file: looked for {TASK_FILES}[.gz] in {listed}."
        " Give the folder of the benchmark's repository, or the file itself"
    )


def _places(source: Path, dataset_version: str) -> tuple[Path, ...]:
    if dataset_version == "v0":
        beside = (source.parent / "v0" / "function",) if source.name == "function" else ()
        return (source / "v0" / "function", *beside, source / "function", source)
    if dataset_version == "current" and "v0" in (source.name, source.parent.name):
        raise SourceUnreadable(
            f"{source} is the first release, not the current files."
            " Stage it with --dataset-version v0, or give the folder above v0"
        )
    return (source, source / "function")


def _files_in(place: Path) -> tuple[Path, ...]:
    plain = sorted(place.glob(TASK_FILES))
    packed = [path for path in sorted(place.glob(TASK_FILES + ".gz")) if path.with_suffix("") not in plain]
    return tuple(sorted(plain + packed))

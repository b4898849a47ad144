"""Finds CodeIF-Bench's task files."""

from pathlib import Path

from schemas.errors import SourceUnreadable
from tasks.benchmarks.codeif.construction.comments import CONSTRUCTION
from tasks.benchmarks.codeif.repositories.repository import CONSTRUCTION_REPOSITORIES
from tasks.benchmarks.codeif.repositories.repository_recording import LEVEL_1
from tasks.benchmarks.raw_lines import SUFFIXES

TASK_FILES = "L_1_part_1*.jsonl"
REPOSITORY_FILES = ("L_1_part_2*.jsonl", "L_2*.jsonl", "L_3*.jsonl")
"""Of current data; the first release is staged without them, since its rows have no order of turns."""


def task_files(source: Path, dataset_version: str) -> tuple[Path, ...]:
    """The files to stage from a file or folder: those of functions, then those of repositories, each sorted.

    Raises:
        SourceUnreadable: there is no such path, or no task file in any place where one is looked for.
    """
    if source.is_file():
        if not source.name.endswith(SUFFIXES):
            raise SourceUnreadable(
                f"{source} is not a .jsonl or .jsonl.gz file. Give such a file, or the folder that holds it"
            )
        return (source,)
    if not source.is_dir():
        raise SourceUnreadable(
            f"{source} does not exist. Give CodeIF-Bench's folder, or one of its .jsonl[.gz] files"
        )
    if dataset_version == LEVEL_1:
        places = (source, source / "repo")
        if found := next(
            (found for place in places if (found := _files_in(place, REPOSITORY_FILES[:1]))), ()
        ):
            return found
        raise SourceUnreadable(
            f"{source} holds no {REPOSITORY_FILES[0]}[.gz]. Give CodeIF-Bench's folder, or `repo` of it"
        )
    if dataset_version == CONSTRUCTION_REPOSITORIES:
        if found := next(
            (
                found
                for place in (source, source / "repo")
                if (found := _files_in(place, REPOSITORY_FILES))
            ),
            (),
        ):
            return found
        raise SourceUnreadable(
            f"{source} holds none of {', '.join(REPOSITORY_FILES)}[.gz]. Give the folder that holds them"
        )
    places = _places(source, dataset_version)
    functions = next((found for place in places if (found := _files_in(place, (TASK_FILES,)))), ())
    beside = () if dataset_version in ("v0", CONSTRUCTION) else (source, source / "repo")
    repositories = next(
        (found for place in beside if (found := _files_in(place, REPOSITORY_FILES))), ()
    )
    if functions or repositories:
        return (*functions, *repositories)
    listed = ", ".join(str(place) for place in dict.fromkeys((*places, *beside)))
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


def _files_in(place: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    plain = sorted(path for pattern in patterns for path in place.glob(pattern))
    packed = sorted(path for pattern in patterns for path in place.glob(pattern + ".gz"))
    return tuple(sorted(plain + [path for path in packed if path.with_suffix("") not in plain]))

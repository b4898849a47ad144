"""Location of CodeIF-Bench's task files."""

from pathlib import Path

from schemas.errors import SourceUnreadable
from tasks.benchmarks.codeif.construction.comments import CONSTRUCTION
from tasks.benchmarks.codeif.repositories.repository import CONSTRUCTION_REPOSITORIES
from tasks.benchmarks.codeif.repositories.repository_recording import LEVEL_1
from tasks.benchmarks.raw_rows import SUFFIXES

TASK_FILES = "L_1_part_1*.jsonl"
REPOSITORY_FILES = ("L_1_part_2*.jsonl", "L_2*.jsonl", "L_3*.jsonl")
"""Files of repository tasks.

The first release (v0) is staged without them, since its rows have no order of turns.
"""


def task_files(source: Path, dataset_version: str) -> tuple[Path, ...]:
    """Return the files to stage: those of function tasks, then those of repository tasks.

    Raises:
        SourceUnreadable: the path does not exist, or contains no task file in the searched folders.
    """
    if source.is_file():
        if not source.name.endswith(SUFFIXES):
            raise SourceUnreadable(
                f"{source} is not a .jsonl or .jsonl.gz file. Pass such a file, or its folder"
            )
        return (source,)
    if not source.is_dir():
        raise SourceUnreadable(
            f"{source} does not exist. Pass CodeIF-Bench's folder, or one of its .jsonl[.gz] files"
        )
    repository_folders = (source, source / "repo")
    if dataset_version == LEVEL_1:
        if files := _first_files(repository_folders, REPOSITORY_FILES[:1]):
            return files
        raise SourceUnreadable(
            f"{source} contains no {REPOSITORY_FILES[0]}[.gz]. Pass CodeIF-Bench's folder, or its"
            " folder `repo`"
        )
    if dataset_version == CONSTRUCTION_REPOSITORIES:
        if files := _first_files(repository_folders, REPOSITORY_FILES):
            return files
        raise SourceUnreadable(
            f"{source} contains none of {', '.join(REPOSITORY_FILES)}[.gz]. Pass the folder that"
            " contains them"
        )
    if dataset_version in ("v0", CONSTRUCTION):
        repository_folders = ()
    function_folders = _function_folders(source, dataset_version)
    functions = _first_files(function_folders, (TASK_FILES,))
    repositories = _first_files(repository_folders, REPOSITORY_FILES)
    if functions or repositories:
        return (*functions, *repositories)
    folders = ", ".join(map(str, dict.fromkeys((*function_folders, *repository_folders))))
    raise SourceUnreadable(
        f"{source} contains no CodeIF-Bench {dataset_version} task file: no {TASK_FILES}[.gz] in"
        f" {folders}. Pass the folder of the benchmark's repository, or the file itself"
    )


def _function_folders(source: Path, dataset_version: str) -> tuple[Path, ...]:
    if dataset_version == "v0":
        sibling = (source.parent / "v0" / "function",) if source.name == "function" else ()
        return (source / "v0" / "function", *sibling, source / "function", source)
    if dataset_version == "current" and "v0" in (source.name, source.parent.name):
        raise SourceUnreadable(
            f"{source} is the first release, not the current files."
            " Stage it with --dataset-version v0, or pass the parent folder of v0"
        )
    return (source, source / "function")


def _first_files(folders: tuple[Path, ...], patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the matching files of the first folder that has any."""
    return next((files for folder in folders if (files := _files_in(folder, patterns))), ())


def _files_in(folder: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    plain = sorted(path for pattern in patterns for path in folder.glob(pattern))
    packed = sorted(path for pattern in patterns for path in folder.glob(pattern + ".gz"))
    return tuple(sorted(plain + [path for path in packed if path.with_suffix("") not in plain]))

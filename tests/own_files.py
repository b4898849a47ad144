"""The files that are the project's own: what git would keep, found without asking git."""

import os
from functools import cache
from pathlib import Path

from pathspec import GitIgnoreSpec

ROOT = Path(__file__).resolve().parents[1]


@cache
def own_files() -> tuple[Path, ...]:
    """Every file below the root that .gitignore does not leave out, sorted."""
    ignored = GitIgnoreSpec.from_lines(
        [*(ROOT / ".gitignore").read_text(encoding="utf-8").splitlines(), ".git"]
    )
    found: list[Path] = []
    for folder, folders, files in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        folders[:] = [
            name for name in folders if not ignored.match_file(f"{(here / name).as_posix()}/")
        ]
        found += [
            Path(folder) / name
            for name in files
            if not ignored.match_file((here / name).as_posix())
        ]
    return tuple(sorted(found))


def relative(path: Path) -> str:
    """The path from the root, with forward slashes."""
    return path.relative_to(ROOT).as_posix()

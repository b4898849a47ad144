"""The folder that a build ends in: native files, the review sheet, and a page that says what they were made from."""

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from schemas.errors import ParleyError
from schemas.outside.display import is_plain_name, plain_line, plain_text
from tasks.benchmarks.construction import Cell, Constructed, Review
from tasks.planning.builds.build_plan import BuildPlan
from tasks.storage.new_folder import new_folder, require_room

REVIEW, MADE_FROM = "review.csv", "build.json"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings that spreadsheets take for a formula."""
_LONGEST_NAME = 200


def require_place(plan: BuildPlan) -> None:
    """Raise UsageError where `--out` holds what the build may not replace: said before anything is asked."""
    out = _out(plan)
    require_room(
        out, _Owned(out).owns, replace=plan.request.replace or _Owned(out).build_id == plan.build_id
    )


def write_built(plan: BuildPlan, made: Constructed) -> tuple[str, ...]:
    """Put the files in place; returns their names. Equal builds write equal files.

    Raises:
        ParleyError: the construction named a file that cannot be written.
        UsageError: see `require_place`.
    """
    out = _out(plan)
    files = {
        _file_name(name): content.encode() if isinstance(content, str) else content
        for name, content in made.files.items()
    }
    files[REVIEW] = review_sheet(made.review)
    owned = _Owned(out)
    with new_folder(
        out, owned.owns, replace=plan.request.replace or owned.build_id == plan.build_id
    ) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        (folder / MADE_FROM).write_text(_made_from(plan, files), encoding="utf-8")
    return (*files, MADE_FROM)


def _out(plan: BuildPlan) -> Path:
    return Path(plan.request.out).resolve()


def _file_name(name: str) -> str:
    if (
        not is_plain_name(name)
        or "/" in name
        or name.startswith(".")
        or not 0 < len(name.encode()) <= _LONGEST_NAME
    ):
        raise ParleyError(
            f"the construction made a file {plain_line(repr(name))}: files have plain names, without folders"
        )
    if name in (REVIEW, MADE_FROM):
        raise ParleyError(f"the construction made a file {name!r}: that name is Parley's own")
    return name


def _made_from(plan: BuildPlan, files: Mapping[str, bytes]) -> str:
    """What was made, from what and by whom."""
    said = {
        "build_id": plan.build_id,
        "limit": plan.request.limit,
        **plan.spec.model_dump(mode="json"),
        "files": {name: _digest(content) for name, content in files.items()},
    }
    return json.dumps(said, indent=1) + "\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Owned:
    """Files of an earlier build in a folder, by what it says of itself. A file that was changed since is a person's."""

    def __init__(self, out: Path) -> None:
        said: object = None
        with suppress(OSError, ValueError):
            said = json.loads((out / MADE_FROM).read_text(encoding="utf-8"))
        self._said = said if isinstance(said, dict) else {}
        files = self._said.get("files")
        self._files = files if isinstance(files, dict) else {}

    @property
    def build_id(self) -> object:
        """The earlier build; None where none is there."""
        return self._said.get("build_id")

    def owns(self, path: Path) -> bool:
        """Whether the file is there as it was built."""
        if path.name == MADE_FROM:
            return self.build_id is not None
        return self._files.get(path.name) == _digest(path.read_bytes())


def review_sheet(review: Review) -> bytes:
    """CSV for spreadsheets: what models said is text in it, never a formula, a control character or half a character.

    Raises:
        ParleyError: a row has not as many cells as there are columns.
    """
    for number, row in enumerate(review.rows, 1):
        if len(row) != len(review.columns):
            raise ParleyError(
                f"row {number} of the review sheet has {len(row)} cells for {len(review.columns)} columns"
            )
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerows(
        [_cell(cell) for cell in row] for row in (review.columns, *review.rows)
    )
    return text.getvalue().encode("utf-8")


def _cell(value: Cell) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str):
        return str(value) if isinstance(value, bool) else value
    clean = plain_text(value)
    return f"'{clean}" if clean.startswith(_FORMULA) else clean

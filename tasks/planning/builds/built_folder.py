"""Output folder of a build: native files, review sheet, and origin as JSON. Report of a build."""

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from schemas.base import Frozen
from schemas.errors import ParleyError
from schemas.outside.display import is_plain_name, plain_line, plain_text
from tasks.benchmarks.advanced import Cell, Constructed, Review
from tasks.driver.stored_calls import StoredCalls
from tasks.planning.builds.build_plan import BuildPlan
from tasks.storage.new_folder import new_folder, require_room

REVIEW, MADE_FROM = "review.csv", "build.json"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Prefixes of texts that spreadsheets interpret as formulas."""
_LONGEST_NAME = 200


def require_place(plan: BuildPlan) -> None:
    """Raise UsageError if `--out` contains files that the build must not replace.

    Commands call it before the first request.
    """
    out = _out(plan)
    require_room(
        out, _Owned(out).owns, replace=plan.request.replace or _Owned(out).build_id == plan.build_id
    )


def write_built(plan: BuildPlan, constructed: Constructed) -> tuple[str, ...]:
    """Write the files of a build and return their names. Equal builds write equal files.

    Raises:
        ParleyError: the construction returned a file name that cannot be written.
        UsageError: see `require_place`.
    """
    out = _out(plan)
    files = {
        _file_name(name): content.encode() if isinstance(content, str) else content
        for name, content in constructed.files.items()
    }
    files[REVIEW] = review_sheet(constructed.review)
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
            f"the construction returned a file {plain_line(repr(name))}: names must be plain, "
            "without folders"
        )
    if name in (REVIEW, MADE_FROM):
        raise ParleyError(f"the construction returned a file {name!r}: Parley reserves this name")
    return name


def _made_from(plan: BuildPlan, files: Mapping[str, bytes]) -> str:
    """Return the text of `build.json`: the spec of the build, and digests of its files."""
    origin = {
        "build_id": plan.build_id,
        "limit": plan.request.limit,
        **plan.spec.model_dump(mode="json"),
        "files": {name: _digest(content) for name, content in files.items()},
    }
    return json.dumps(origin, indent=1) + "\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Owned:
    """Files of an earlier build in a folder, according to its `build.json`.

    A file that changed since the build belongs to the user and is not replaced.
    """

    def __init__(self, out: Path) -> None:
        origin: object = None
        with suppress(OSError, ValueError):
            origin = json.loads((out / MADE_FROM).read_text(encoding="utf-8"))
        self._origin = origin if isinstance(origin, dict) else {}
        files = self._origin.get("files")
        self._files = files if isinstance(files, dict) else {}

    @property
    def build_id(self) -> object:
        """Id of the earlier build; None if the folder contains none."""
        return self._origin.get("build_id")

    def owns(self, path: Path) -> bool:
        """Return True if the file is unchanged since it was built."""
        if path.name == MADE_FROM:
            return self.build_id is not None
        return self._files.get(path.name) == _digest(path.read_bytes())


def review_sheet(review: Review) -> bytes:
    """Return the review sheet as CSV for spreadsheets.

    A cell with text of a model contains no formula, control character or lone surrogate.

    Raises:
        ParleyError: the number of cells of a row differs from the number of columns.
    """
    for number, row in enumerate(review.rows, 1):
        if len(row) != len(review.columns):
            raise ParleyError(
                f"row {number} of the review sheet has {len(row)} cells for "
                f"{len(review.columns)} columns"
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


class RoleCalls(Frozen):
    """Numbers of answers of one role: estimated, received and reused."""

    role: str
    model: str
    estimated: int
    asked: int = 0
    """Number of answers that this invocation received."""
    reused: int = 0
    """Number of stored answers that this invocation used. In a dry run, all stored answers."""


class BuildReport(Frozen):
    """State of one build after an invocation."""

    build_id: str
    what: str
    calls: tuple[RoleCalls, ...]
    out: str = ""
    files: tuple[str, ...] = ()
    review: str = ""
    n_review_rows: int = 0
    programs_run: int = 0
    programs_reused: int = 0


def report_of(
    plan: BuildPlan, made: Constructed, files: tuple[str, ...], kept: StoredCalls
) -> BuildReport:
    """Return the report of a finished build."""
    out, counts = Path(plan.request.out).resolve(), kept.calls(plan.construction.roles)
    return BuildReport(
        build_id=plan.build_id,
        what=plan.request.what,
        calls=tuple(
            RoleCalls(
                role=one.role,
                model=one.model.label,
                estimated=plan.estimate[one.role],
                asked=counts[one.role].sent,
                reused=counts[one.role].reused,
            )
            for one in plan.spec.roles
        ),
        out=str(out),
        files=files,
        review=str(out / REVIEW),
        n_review_rows=len(made.review.rows),
        programs_run=kept.programs.sent,
        programs_reused=kept.programs.reused,
    )


def dry_report(plan: BuildPlan) -> BuildReport:
    """Return the report of a dry run: the planned calls of each role. No request is sent."""
    kept = StoredCalls(plan.folder).n_stored
    calls = tuple(
        RoleCalls(
            role=one.role,
            model=one.model.label,
            estimated=plan.estimate[one.role],
            reused=kept.get(one.role, 0),
        )
        for one in plan.spec.roles
    )
    return BuildReport(build_id=plan.build_id, what=plan.request.what, calls=calls)

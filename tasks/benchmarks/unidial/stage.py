"""Raw files of the datasets as dialogs and problems. Other rows are quarantined with their reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Context, Dialog
from schemas.errors import SourceUnreadable
from schemas.problem import Problem
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_lines import BadRow, relative_name
from tasks.benchmarks.staging import Staging
from tasks.benchmarks.templates import Texts
from tasks.benchmarks.unidial.convert import DATASET, NAME, Contexts, Made, Place, label_of, make
from tasks.benchmarks.unidial.datasets import DATASETS, normalised
from tasks.benchmarks.unidial.datasets.source import Dataset, Read
from tasks.benchmarks.unidial.programs import has_tests, read_tests
from tasks.benchmarks.unidial.questions import NO_TEXTS, Questions
from tasks.benchmarks.unidial.scoring import METRICS
from tasks.metrics.unit_tested_code import unit_tests

NORMALISED = "normalised"
"""Setting of dialogues whose dataset is not among ours."""
TESTED = "tested_code"
"""The same where some of their answers are programs with unit tests: the one setting that needs a sandbox."""


@dataclass(frozen=True)
class Found:
    """Files of one dataset."""

    name: str
    files: tuple[Path, ...]
    dataset: Dataset | None
    """None where the files are normalised and no dataset of ours has that name."""
    is_normalised: bool

    def read(self, questions: Questions) -> Iterator[Read]:
        """Return their rows, worded by these texts."""
        if self.is_normalised or not self.dataset:
            return normalised.read(self.files)
        return self.dataset.read(self.files, *([questions] if self.dataset.questions else []))


def edition_of(texts: Texts) -> str:
    """Return the digest of a user's own texts of questions; empty where there are none."""
    return content_id(dict(texts)) if texts else ""


def stage(source: Path, dataset_version: str, texts: Texts = NO_TEXTS) -> Staged:
    """Stage every dataset whose files lie in the folder, or one folder below. A file alone is staged without its neighbours.

    Problems are named as the toolkit numbers its dialogues; where a folder holds several datasets, `DATASET/NUMBER`.

    Args:
        texts: a user's own texts of questions, in the place of Parley's.

    Raises:
        SourceUnreadable: no file of any dataset, or none with a single dialogue that can be read.
    """
    found = find(source)
    rows = _Rows(source, dataset_version, several=len(found) > 1)
    for one in found:
        questions = Questions(one.dataset.questions if one.dataset else {}, texts)
        for read in one.read(questions):
            rows.add(read, one, edition_of(texts) if questions.take_shown() else "")
    staging = rows.staging
    if not staging.problems:
        why = "; ".join(
            f"{bad.source_file} line {bad.source_line}: {bad.detail}"
            for bad in staging.quarantined[:3]
        )
        raise SourceUnreadable(
            f"{source} holds not one dialogue that can be staged ({why}). Fetch its files again"
        )
    return staging.staged(rows.contexts.values())


def plays(setting: str, dialog: Dialog) -> bool:
    """Whether a dialog is of a setting's dataset. One whose dataset nothing tells is of whichever setting is asked for."""
    if has_tests(dialog):
        return setting == TESTED
    name = label_of(dialog, DATASET)
    return name in ("", setting) or (setting in (NORMALISED, TESTED) and name not in DATASETS)


def find(source: Path) -> Sequence[Found]:
    """The datasets whose files lie there.

    Raises:
        SourceUnreadable: none.
    """
    if source.is_file():
        found = [
            Found(one.name, (source,), one.dataset, one.is_normalised)
            for one in _in(source.parent)
            if source in one.files
        ]
    else:
        below = (
            sorted(path for path in source.iterdir() if path.is_dir()) if source.is_dir() else []
        )
        found = _in(source) or [one for folder in below for one in _in(folder)]
    if not found:
        raise SourceUnreadable(
            f"{source} holds no file of {', '.join(DATASETS)}, nor dialogues normalised by UniDial-EvalKit (N.json)."
            " Give the folder that such files lie in, or the folder above"
        )
    return found


def _in(folder: Path) -> list[Found]:
    if files := normalised.find(folder):
        name = normalised.dataset_name(folder) or next(
            (one.name for one in (folder, folder.parent) if one.name in DATASETS), ""
        )
        return [Found(name, tuple(files), DATASETS.get(name), True)]
    found = ((one, tuple(one.find(folder))) for one in DATASETS.values())
    return [Found(one.name, files, one, False) for one, files in found if files]


def _folder(file: Path) -> Path:
    """The folder that a dialogue's file is of: of a run's, not the one within it that holds all answers."""
    return file.parent.parent if file.parent.name == normalised.GENERATED else file.parent


class _Rows:
    """Everything staged so far."""

    def __init__(self, source: Path, version: str, several: bool) -> None:
        self._source, self._version, self._several = source, version, several
        self._shared = Contexts()
        self.staging = Staging(NAME, version)
        self.contexts: dict[str, Context] = {}

    def add(self, read: Read, found: Found, edition: str) -> None:
        """Stage or quarantine one row."""
        file, made = relative_name(read.file, self._source), list[Made]()

        def make_row() -> tuple[Problem, list[Dialog]]:
            made.append(self._made(read, found, file, edition))
            return made[0].problem, [made[0].dialog]

        if (
            self.staging.add(file, read.line, make_row, read.content)
            and made[0].context is not None
        ):
            self.contexts.setdefault(made[0].context.context_id, made[0].context)

    def _made(self, read: Read, found: Found, file: str, edition: str) -> Made:
        if isinstance(read.dialog, BadRow):
            raise read.dialog
        number = str(read.dialog.dialog_id)
        identity = f"{found.name or _folder(read.file).name}/{number}" if self._several else number
        unknown = {
            one.class_name for turn in read.dialog.dialog_turns for one in turn.eval_config.metrics
        } - METRICS.keys()
        if unknown:
            raise BadRow(
                "unknown_metric", f"{', '.join(sorted(unknown))}; known: {', '.join(METRICS)}"
            )
        for turn in read.dialog.dialog_turns:
            for one in turn.eval_config.metrics:
                if one.class_name == unit_tests.name:
                    read_tests(one.class_name, one.args)
        place = Place(found.dataset, found.name, self._version, file, identity, edition)
        return make(read, read.dialog, place, self._shared)

"""Stage raw files of the datasets. Invalid rows are quarantined with a reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Context, Dialog
from schemas.errors import SourceUnreadable
from schemas.problem import Problem
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import BadRow, relative_name
from tasks.benchmarks.staging import Staging
from tasks.benchmarks.templates import Texts
from tasks.benchmarks.unidial.convert import (
    DATASET,
    NAME,
    Contexts,
    Place,
    StagedDialog,
    label_of,
    make_rows,
)
from tasks.benchmarks.unidial.datasets import DATASETS, normalised
from tasks.benchmarks.unidial.datasets.source import NO_TEXTS, Dataset, Questions, RawDialog
from tasks.benchmarks.unidial.scoring import METRICS, has_tests, read_tests
from tasks.metrics.code_rules import unit_tests

NORMALISED = "normalised"
"""Setting of dialogues whose dataset has no module in `datasets`."""
TESTED = "tested_code"
"""Setting of dialogues whose answers are programs with unit tests. It needs a sandbox."""


@dataclass(frozen=True)
class DatasetFiles:
    """Files of one dataset."""

    name: str
    files: tuple[Path, ...]
    dataset: Dataset | None
    """Dataset of the files. None for normalised files whose dataset has no module in `datasets`."""
    is_normalised: bool

    def read(self, questions: Questions) -> Iterator[RawDialog]:
        """Return the rows of the files. Questions have the wording of `questions`."""
        if self.is_normalised or not self.dataset:
            return normalised.read(self.files)
        return self.dataset.read(self.files, *([questions] if self.dataset.questions else []))


def edition_of(texts: Texts) -> str:
    """Return the digest of the question templates in `--templates DIR`, or "" without any."""
    return content_id(dict(texts)) if texts else ""


def stage(source: Path, dataset_version: str, texts: Texts = NO_TEXTS) -> Staged:
    """Stage every dataset with files in the folder or one level below.

    A single file is staged without its neighbours. Problems have the numbers of the toolkit's
    dialogues. If a folder holds several datasets, problems are named `DATASET/NUMBER`.

    Args:
        source: File or folder.
        dataset_version: Dataset version of the rows.
        texts: Custom texts of questions from `--templates`, which replace Parley's.

    Raises:
        SourceUnreadable: There is no file of any dataset, or no dialogue that can be staged.
    """
    datasets = find(source)
    rows = _Rows(source, dataset_version, several=len(datasets) > 1)
    for files in datasets:
        questions = Questions(files.dataset.questions if files.dataset else {}, texts)
        for read in files.read(questions):
            rows.add(read, files, edition_of(texts) if questions.take_shown() else "")
    staging = rows.staging
    if not staging.problems:
        why = "; ".join(
            f"{bad.source_file} line {bad.source_line}: {bad.detail}"
            for bad in staging.quarantined[:3]
        )
        raise SourceUnreadable(
            f"{source} has no dialogue that can be staged ({why}). Fetch its files again"
        )
    return staging.staged(rows.contexts.values())


def plays(setting: str, dialog: Dialog) -> bool:
    """Return True if the dialog belongs to the setting.

    A dialog of an unknown dataset belongs to any setting.
    """
    if has_tests(dialog):
        return setting == TESTED
    name = label_of(dialog, DATASET)
    return name in ("", setting) or (setting in (NORMALISED, TESTED) and name not in DATASETS)


def find(source: Path) -> Sequence[DatasetFiles]:
    """Return the datasets whose files are at a path.

    Raises:
        SourceUnreadable: The path has no file of any dataset.
    """
    if source.is_file():
        datasets = [
            DatasetFiles(files.name, (source,), files.dataset, files.is_normalised)
            for files in _in(source.parent)
            if source in files.files
        ]
    else:
        below = (
            sorted(path for path in source.iterdir() if path.is_dir()) if source.is_dir() else []
        )
        datasets = _in(source) or [files for folder in below for files in _in(folder)]
    if not datasets:
        raise SourceUnreadable(
            f"{source} has no file of {', '.join(DATASETS)},"
            " and no dialogues normalised by UniDial-EvalKit (N.json)."
            " Name the folder of such files, or its parent"
        )
    return datasets


def _in(folder: Path) -> list[DatasetFiles]:
    if files := normalised.find(folder):
        name = normalised.dataset_name(folder) or next(
            (parent.name for parent in (folder, folder.parent) if parent.name in DATASETS), ""
        )
        return [DatasetFiles(name, tuple(files), DATASETS.get(name), True)]
    candidates = ((dataset, tuple(dataset.find(folder))) for dataset in DATASETS.values())
    return [
        DatasetFiles(dataset.name, files, dataset, False) for dataset, files in candidates if files
    ]


def _folder(file: Path) -> Path:
    """Return the folder of a dialogue's file. For a run, it is the run's folder."""
    return file.parent.parent if file.parent.name == normalised.GENERATED else file.parent


class _Rows:
    """Rows staged so far."""

    def __init__(self, source: Path, version: str, several: bool) -> None:
        self._source, self._version, self._several = source, version, several
        self._shared = Contexts()
        self.staging = Staging(NAME, version)
        self.contexts: dict[str, Context] = {}

    def add(self, read: RawDialog, files: DatasetFiles, edition: str) -> None:
        """Stage or quarantine one row."""
        file, staged = relative_name(read.file, self._source), list[StagedDialog]()

        def make_row() -> tuple[Problem, list[Dialog]]:
            staged.append(self._convert(read, files, file, edition))
            return staged[0].problem, [staged[0].dialog]

        if (
            self.staging.add(file, read.line, make_row, read.content)
            and staged[0].context is not None
        ):
            self.contexts.setdefault(staged[0].context.context_id, staged[0].context)

    def _convert(
        self, read: RawDialog, files: DatasetFiles, file: str, edition: str
    ) -> StagedDialog:
        if isinstance(read.dialog, BadRow):
            raise read.dialog
        number = str(read.dialog.dialog_id)
        identity = f"{files.name or _folder(read.file).name}/{number}" if self._several else number
        unknown = {
            metric.class_name
            for turn in read.dialog.dialog_turns
            for metric in turn.eval_config.metrics
        } - METRICS.keys()
        if unknown:
            raise BadRow(
                "unknown_metric",
                f"unknown: {', '.join(sorted(unknown))}. Known: {', '.join(METRICS)}",
            )
        for turn in read.dialog.dialog_turns:
            for metric in turn.eval_config.metrics:
                if metric.class_name == unit_tests.name:
                    read_tests(metric.class_name, metric.args)
        place = Place(files.dataset, files.name, self._version, file, identity, edition)
        return make_rows(read, read.dialog, place, self._shared)

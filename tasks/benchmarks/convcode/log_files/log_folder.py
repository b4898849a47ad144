"""Folder of ConvCodeBench's log files: their models, and the file of each turn and feedback."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from schemas.episode import ExecutionFeedback, FeedbackSetting, VerbalFeedback
from schemas.errors import ConfigError, SourceUnreadable
from tasks.benchmarks.raw_rows import SUFFIXES

SUFFIX = ".jsonl"
EVAL_SUFFIX = "_eval_results.json"
GRAMMAR = (
    "bigcodebench_{model}_CF[_EF_UNIT|_EF_FULL][_SNF|_SEF][_by_SIMULATOR][_ITER=2, 3, ...].jsonl"
)
MAX_BYTES = 255
"""Maximum length of a file name on common file systems."""

_EXECUTION = {
    ExecutionFeedback.NONE: "",
    ExecutionFeedback.PARTIAL: "_EF_UNIT",
    ExecutionFeedback.FULL: "_EF_FULL",
}
_VERBAL = {VerbalFeedback.NONE: "", VerbalFeedback.NOVICE: "_SNF", VerbalFeedback.EXPERT: "_SEF"}
_EXECUTION_OF = {part: value for value, part in _EXECUTION.items()}
_VERBAL_OF = {part: value for value, part in _VERBAL.items()}
_NAME = re.compile(
    r"bigcodebench_(?P<model>.+?)_CF(?P<execution>|_EF_UNIT|_EF_FULL)"
    r"(?:(?P<verbal>_SNF|_SEF)(?:_by_(?P<simulator>.+?))?)?(?:_ITER=(?P<iteration>0|[2-9]|[1-9][0-9]))?\.jsonl",
    re.DOTALL,
)
_FIRST_ANSWERS = re.compile(
    r"(?P<model>.+)--bigcodebench-(?:instruct|complete)--[^-]+-[0-9.]+-[0-9]+(?:[-_]sanitized)?(?:[-_]calibrated)?\.jsonl"
)


@dataclass(frozen=True)
class LogName:
    """Parts of a log file's name."""

    model: str
    """Reference model, with `_` in place of each `/`."""
    setting: FeedbackSetting
    simulator: str | None
    """Simulator that gave verbal feedback, with `_` in place of each `/`.

    None if there is none or it is the model.
    """
    iteration: int
    """Number of the turn as in the paper, from 1.

    Turn 0 (our extension) contains the first answers, which upstream stores in BigCodeBench's own
    files.
    """

    @property
    def file(self) -> str:
        """Return the file's name.

        Raises:
            ConfigError: The name would not be parsed back to these parts.
        """
        if self.setting.verbal not in _VERBAL:
            raise ConfigError(
                f"runs with feedback {self.setting.name} have no log files: the names of log files"
                f" ({GRAMMAR}) cannot express this feedback. Leave these runs out"
            )
        simulator = f"_by_{self.simulator}" if self.simulator else ""
        iteration = "" if self.iteration == 1 else f"_ITER={self.iteration}"
        verbal = f"{_VERBAL[self.setting.verbal]}{simulator}"
        feedback = f"{_EXECUTION[self.setting.execution]}{verbal}"
        name = f"bigcodebench_{self.model}_CF{feedback}{iteration}{SUFFIX}"
        if not _fits_a_file_system(name) or parse_log_name(name) != self:
            raise ConfigError(
                f"model {self.model!r} with simulator {self.simulator!r}: the log file names"
                f" ({GRAMMAR}) would be ambiguous. Rename the models"
            )
        return name

    def at(self, iteration: int) -> "LogName":
        """Return the name of the log of another turn."""
        return replace(self, iteration=iteration)


def parse_log_name(name: str) -> LogName | None:
    """Return the parts of a log file's name, which may end in `.gz`, or None for other names."""
    match = _NAME.fullmatch(name.removesuffix(".gz"))
    if match is None:
        return None
    return LogName(
        model=match["model"],
        setting=FeedbackSetting(
            execution=_EXECUTION_OF[match["execution"]], verbal=_VERBAL_OF[match["verbal"] or ""]
        ),
        simulator=match["simulator"],
        iteration=int(match["iteration"] or 1),
    )


def first_answers_model(name: str) -> str | None:
    """Return the model whose first answers a file of BigCodeBench's samples holds, or None.

    The model is written as in log names.
    """
    match = _FIRST_ANSWERS.fullmatch(name.removesuffix(".gz"))
    return match["model"].replace("--", "_") if match else None


def eval_file(log: Path) -> Path:
    """Return the file with the test results of a log's code, in the folder of the log."""
    return log.with_name(log.name.removesuffix(".gz").removesuffix(SUFFIX) + EVAL_SUFFIX)


def file_model_name(model: str) -> str:
    """Return a model's name as used in file names."""
    return model.replace("/", "_")


def _fits_a_file_system(name: str) -> bool:
    try:
        return len(name.encode("utf-8")) <= MAX_BYTES and not set("/\0") & set(name)
    except UnicodeEncodeError:
        return False


@dataclass
class LogFolder:
    """Logs of one reference model with one simulator."""

    folder: Path
    logs: dict[FeedbackSetting, dict[int, Path]] = field(
        default_factory=dict[FeedbackSetting, dict[int, Path]]
    )
    """Log files by kind of feedback, then by turn."""
    first_answers: Path | None = None
    """BigCodeBench's own file with turn 0 of all settings, if any."""
    model: str = ""
    simulator: str = ""
    """Simulator that gave the verbal feedback. Empty if no log has any."""
    _names: dict[FeedbackSetting, LogName] = field(default_factory=dict[FeedbackSetting, LogName])
    _model_from: Path | None = None
    _simulator_from: Path | None = None

    def add(self, path: Path, name: LogName) -> None:
        """Add a log.

        Raises:
            SourceUnreadable: The log has another model or simulator than earlier logs, or repeats a
                turn.
        """
        self._same_model(path, name.model)
        if name.setting.verbal is not VerbalFeedback.NONE:
            self._same_simulator(path, name.simulator or name.model)
        files = self.logs.setdefault(name.setting, {})
        if name.iteration in files:
            raise SourceUnreadable(
                f"{path} holds the same turn as {files[name.iteration].name}. Remove one of them"
            )
        files[name.iteration] = path
        self._names[name.setting] = name

    def add_first_answers(self, path: Path, model: str) -> None:
        """Add turn 0 of all settings.

        Raises:
            SourceUnreadable: The model differs from earlier logs, or there already is such a file.
        """
        self._same_model(path, model)
        if self.first_answers is not None:
            raise SourceUnreadable(
                f"{path} and {self.first_answers.name} both hold first answers. Remove one of them"
            )
        self.first_answers = path

    def _same_model(self, path: Path, model: str) -> None:
        if self._model_from is not None and model != self.model:
            raise SourceUnreadable(
                f"{path} is a log of {model!r}, but {self._model_from.name} is of {self.model!r}."
                " Put the logs of each reference model in a folder of its own"
            )
        self.model, self._model_from = model, path

    def _same_simulator(self, path: Path, simulator: str) -> None:
        if self._simulator_from is not None and simulator != self.simulator:
            raise SourceUnreadable(
                f"{path} holds feedback by {simulator!r}, but {self._simulator_from.name} holds"
                f" feedback by {self.simulator!r}. Put the logs of each simulator in its own folder"
            )
        self.simulator, self._simulator_from = simulator, path

    def turns(self, feedback: FeedbackSetting) -> Mapping[int, Path]:
        """Return the files by turn, starting with 0 and without a gap.

        Raises:
            SourceUnreadable: The file of a turn is missing. The message names it.
        """
        files = dict(self.logs[feedback])
        if 0 not in files:
            files[0] = self._first_answers(feedback)
        self.require(feedback, range(1, max(files) + 1), "there are later turns")
        return dict(sorted(files.items()))

    def require(self, feedback: FeedbackSetting, turns: Iterable[int], why: str) -> None:
        """Raise SourceUnreadable if the file of one of these turns is missing."""
        missing = [self._name(feedback, turn) for turn in turns if turn not in self.logs[feedback]]
        if missing:
            raise SourceUnreadable(
                f"{self.folder} lacks {', '.join(missing)}, although {why}. "
                "Add the file, or remove this setting's logs"
            )

    def _first_answers(self, feedback: FeedbackSetting) -> Path:
        if self.first_answers is None:
            raise SourceUnreadable(
                f"{self.folder} lacks the first answers of {self.model}, to which turn 1 refers."
                " Add upstream's file"
                " MODEL--bigcodebench-instruct--vllm-0-1-sanitized-calibrated.jsonl with its"
                f" _eval_results.json, or {self._name(feedback, 0)} as written by `parley build`"
            )
        return self.first_answers

    def _name(self, feedback: FeedbackSetting, turn: int) -> str:
        return self._names[feedback].at(turn).file


def find_logs(folder: Path) -> LogFolder:
    """Return the log files directly in a folder, including packed ones (`.jsonl.gz`).

    Raises:
        SourceUnreadable: A .jsonl file is not a log, files do not belong together, or there is no
            log.
    """
    log_folder = LogFolder(folder)
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.name.endswith(SUFFIXES):
            continue
        if name := parse_log_name(path.name):
            log_folder.add(path, name)
        elif model := first_answers_model(path.name):
            log_folder.add_first_answers(path, model)
        else:
            raise SourceUnreadable(
                f"{path} does not have the name of a log ({GRAMMAR}). Rename or remove it"
            )
    if not log_folder.logs:
        raise SourceUnreadable(f"{folder} has no log ({GRAMMAR})")
    return log_folder

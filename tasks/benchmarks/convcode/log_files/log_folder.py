"""Folder of ConvCodeBench's log files: their models, and the file of each turn and feedback."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from schemas.errors import SourceUnreadable
from schemas.feedback import FeedbackSetting, VerbalFeedback
from tasks.benchmarks.convcode.log_files.log_names import (
    GRAMMAR,
    LogName,
    first_answers_model,
    parse_log_name,
)
from tasks.benchmarks.raw_lines import SUFFIXES


@dataclass
class LogFolder:
    """Logs of one reference model with one simulator."""

    folder: Path
    logs: dict[FeedbackSetting, dict[int, Path]] = field(
        default_factory=dict[FeedbackSetting, dict[int, Path]]
    )
    """Files by feedback and turn."""
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
                " _eval_results.json,"
                f" or {self._name(feedback, 0)} as written by `parley build`"
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

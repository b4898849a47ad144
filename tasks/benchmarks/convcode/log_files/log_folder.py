"""Reads a folder of ConvCodeBench's log files: their models, and the file of each turn and feedback."""

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
    """The logs of one reference model, with one simulator."""

    folder: Path
    logs: dict[FeedbackSetting, dict[int, Path]] = field(
        default_factory=dict[FeedbackSetting, dict[int, Path]]
    )
    """Files by feedback and turn."""
    first_answers: Path | None = None
    """Turn 0 of all settings, where it has BigCodeBench's own file."""
    model: str = ""
    simulator: str = ""
    """Who gave verbal feedback; empty where no log has any."""
    _names: dict[FeedbackSetting, LogName] = field(default_factory=dict[FeedbackSetting, LogName])
    _model_from: Path | None = None
    _simulator_from: Path | None = None

    def add(self, path: Path, name: LogName) -> None:
        """Take in a log.

        Raises:
            SourceUnreadable: another model's or simulator's log than the earlier ones, or the second of its turn.
        """
        self._same_model(path, name.model)
        if name.setting.verbal is not VerbalFeedback.NONE:
            self._same_simulator(path, name.simulator or name.model)
        files = self.logs.setdefault(name.setting, {})
        if name.iteration in files:
            raise SourceUnreadable(
                f"{path} holds the same turn as {files[name.iteration].name}. Leave one of them out"
            )
        files[name.iteration] = path
        self._names[name.setting] = name

    def add_first_answers(self, path: Path, model: str) -> None:
        """Take in turn 0 of all settings; raises as `add` does."""
        self._same_model(path, model)
        if self.first_answers is not None:
            raise SourceUnreadable(
                f"{path} holds first answers as {self.first_answers.name} does. Leave one of them out"
            )
        self.first_answers = path

    def _same_model(self, path: Path, model: str) -> None:
        if self._model_from is not None and model != self.model:
            raise SourceUnreadable(
                f"{path} is a log of {model!r}, {self._model_from.name} one of {self.model!r}:"
                " one reference model's logs are replayed at a time. Give each model its own folder"
            )
        self.model, self._model_from = model, path

    def _same_simulator(self, path: Path, simulator: str) -> None:
        if self._simulator_from is not None and simulator != self.simulator:
            raise SourceUnreadable(
                f"{path} holds feedback by {simulator!r}, {self._simulator_from.name} feedback by {self.simulator!r}:"
                " one simulator's logs are replayed at a time. Give each simulator its own folder"
            )
        self.simulator, self._simulator_from = simulator, path

    def turns(self, feedback: FeedbackSetting) -> Mapping[int, Path]:
        """Files by turn from 0 on, without a gap.

        Raises:
            SourceUnreadable: a turn's file is missing; names it.
        """
        files = dict(self.logs[feedback])
        if 0 not in files:
            files[0] = self._first_answers(feedback)
        self.require(feedback, range(1, max(files) + 1), "later turns are there")
        return dict(sorted(files.items()))

    def require(self, feedback: FeedbackSetting, turns: Iterable[int], why: str) -> None:
        """Raises SourceUnreadable where the file of one of these turns is missing."""
        missing = [self._name(feedback, turn) for turn in turns if turn not in self.logs[feedback]]
        if missing:
            raise SourceUnreadable(
                f"{self.folder} lacks {', '.join(missing)}: {why}. Put it there, or take this setting's logs out"
            )

    def _first_answers(self, feedback: FeedbackSetting) -> Path:
        if self.first_answers is None:
            raise SourceUnreadable(
                f"{self.folder} lacks the first answers of {self.model}, which turn 1 is about: put upstream's file"
                " MODEL--bigcodebench-instruct--vllm-0-1-sanitized-calibrated.jsonl and its _eval_results.json there,"
                f" or {self._name(feedback, 0)} as `parley build` writes it"
            )
        return self.first_answers

    def _name(self, feedback: FeedbackSetting, turn: int) -> str:
        return self._names[feedback].at(turn).file


def find_logs(folder: Path) -> LogFolder:
    """The log files that lie directly in a folder; packed ones (`.jsonl.gz`) too.

    Raises:
        SourceUnreadable: a .jsonl file that is no log, files that do not belong together, or no log at all.
    """
    found = LogFolder(folder)
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.name.endswith(SUFFIXES):
            continue
        if name := parse_log_name(path.name):
            found.add(path, name)
        elif model := first_answers_model(path.name):
            found.add_first_answers(path, model)
        else:
            raise SourceUnreadable(
                f"{path} is not named as a log is: {GRAMMAR}. Give it such a name, or take it out"
            )
    if not found.logs:
        raise SourceUnreadable(f"{folder} holds no log: looked for {GRAMMAR}")
    return found

"""Names of ConvCodeBench's log files, as upstream writes them: which model, which feedback, which turn (paper section 3)."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from schemas.errors import ConfigError
from schemas.feedback import ExecutionFeedback, FeedbackSetting, VerbalFeedback

SUFFIX = ".jsonl"
EVAL_SUFFIX = "_eval_results.json"
GRAMMAR = (
    "bigcodebench_{model}_CF[_EF_UNIT|_EF_FULL][_SNF|_SEF][_by_SIMULATOR][_ITER=2, 3, ...].jsonl"
)
MAX_BYTES = 255
"""Longest name that file systems take."""

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
    """The parts of a log file's name."""

    model: str
    """The reference model, each `/` of its name as `_`."""
    setting: FeedbackSetting
    simulator: str | None
    """Who gave verbal feedback, spelt alike; None where there is none, or where it was the model itself."""
    iteration: int
    """The paper's turn: 1 and up; 0 (our extension) holds the first answers, which upstream keeps in BigCodeBench's own files."""

    @property
    def file(self) -> str:
        """The file's name.

        Raises:
            ConfigError: no file name can say this so that it is understood again.
        """
        if self.setting.verbal not in _VERBAL:
            raise ConfigError(
                f"feedback {self.setting.name}: log files have no name for it ({GRAMMAR}). Leave those runs out"
            )
        simulator = f"_by_{self.simulator}" if self.simulator else ""
        iteration = "" if self.iteration == 1 else f"_ITER={self.iteration}"
        verbal = f"{_VERBAL[self.setting.verbal]}{simulator}"
        name = f"bigcodebench_{self.model}_CF{_EXECUTION[self.setting.execution]}{verbal}{iteration}{SUFFIX}"
        if not _fits_a_file_system(name) or parse_log_name(name) != self:
            raise ConfigError(
                f"model {self.model!r} with simulator {self.simulator!r}: its log files could not be told apart by their names"
                f" ({GRAMMAR}). Give the models other names"
            )
        return name

    def at(self, iteration: int) -> "LogName":
        """The same at another turn."""
        return replace(self, iteration=iteration)


def parse_log_name(name: str) -> LogName | None:
    """The parts of a file's name, `.gz` allowed; None where it is not the name of a log."""
    found = _NAME.fullmatch(name.removesuffix(".gz"))
    if found is None:
        return None
    return LogName(
        model=found["model"],
        setting=FeedbackSetting(
            execution=_EXECUTION_OF[found["execution"]], verbal=_VERBAL_OF[found["verbal"] or ""]
        ),
        simulator=found["simulator"],
        iteration=int(found["iteration"] or 1),
    )


def first_answers_model(name: str) -> str | None:
    """The model whose first answers a file of BigCodeBench's samples holds, spelt as in log names; None for other files."""
    found = _FIRST_ANSWERS.fullmatch(name.removesuffix(".gz"))
    return found["model"].replace("--", "_") if found else None


def eval_file(log: Path) -> Path:
    """Where the test results of a log's code lie: beside it."""
    return log.with_name(log.name.removesuffix(".gz").removesuffix(SUFFIX) + EVAL_SUFFIX)


def spelt(model: str) -> str:
    """A model's name as it stands in file names."""
    return model.replace("/", "_")


def _fits_a_file_system(name: str) -> bool:
    try:
        return len(name.encode("utf-8")) <= MAX_BYTES and not set("/\0") & set(name)
    except UnicodeEncodeError:
        return False

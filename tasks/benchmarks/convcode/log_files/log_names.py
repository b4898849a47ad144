"""Names of ConvCodeBench's log files, as in upstream: model, feedback and turn (section 3)."""

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
    """Simulator that gave verbal feedback, in the same form.

    None if there is none or it is the model.
    """
    iteration: int
    """The paper's turn, from 1.

    Turn 0 (our extension) holds the first answers, which upstream keeps in BigCodeBench's own
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
        """Return the name with another turn."""
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
    """Return the file with the test results of a log's code, which is beside the log."""
    return log.with_name(log.name.removesuffix(".gz").removesuffix(SUFFIX) + EVAL_SUFFIX)


def file_model_name(model: str) -> str:
    """Return a model's name as used in file names."""
    return model.replace("/", "_")


def _fits_a_file_system(name: str) -> bool:
    try:
        return len(name.encode("utf-8")) <= MAX_BYTES and not set("/\0") & set(name)
    except UnicodeEncodeError:
        return False

"""Sources of problems. Each names its files and converts raw rows to the common form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.benchmarks.convcode.raw_row import Task, bigcodebench_task
from tasks.benchmarks.convcode.sources.function_rows import function_task


@dataclass(frozen=True)
class ProblemSource:
    """Raw files of one dataset version."""

    title: str
    folders: tuple[str, ...]
    """Folders to search below the path of `--data`. The first with any files is used."""
    patterns: tuple[str, ...]
    """Glob patterns of the files, which may also end in `.gz`."""
    task: Callable[[dict[str, Any]], Task]
    """Function from raw row to task. Raises BadRow."""
    levels: bool = False
    """True if the level is the prefix of a problem's id."""


_BIGCODEBENCH = ProblemSource(
    "BigCodeBench", ("", "data", "bigcodebench"), ("*.parquet", "*.jsonl"), bigcodebench_task
)

SOURCES: Mapping[str, ProblemSource] = {
    "bigcodebench": _BIGCODEBENCH,
    "humaneval": ProblemSource("HumanEval", ("", "humaneval"), ("HumanEval.jsonl",), function_task),
    "mbpp": ProblemSource("MBPP", ("", "mbpp"), ("mbpp*.jsonl",), function_task),
    "mint": ProblemSource(
        "MINT",
        ("", "processed", "mint/processed", "mint"),
        ("humaneval/test_prompts.json", "mbpp/test_prompts.json"),
        function_task,
        levels=True,
    ),
    "sample": _BIGCODEBENCH,
}
"""Sources by dataset version."""

"""Sources of problems: each names its files and turns a raw row into the one form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.benchmarks.convcode.raw_row import Task, bigcodebench_task
from tasks.benchmarks.convcode.sources.function_rows import function_task


@dataclass(frozen=True)
class ProblemSource:
    """One dataset version's raw files."""

    title: str
    folders: tuple[str, ...]
    """Where its files are looked for, below what the user gave; the first that has any is taken."""
    patterns: tuple[str, ...]
    """Names of its files in there, as globs; `.gz` may follow."""
    task: Callable[[dict[str, Any]], Task]
    """(raw row) -> task. Raises BadRow."""
    levels: bool = False
    """Whether problems are told apart by the set their id begins with."""


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
"""By dataset version."""

"""One row of SWE-bench's format, as its authors publish it in Parquet, on the hub, and others in CSV and JSONL."""

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from tasks.benchmarks.raw_lines import BadRow, Text, validated

COLUMNS = (
    "repo",
    "instance_id",
    "base_commit",
    "patch",
    "test_patch",
    "problem_statement",
    "hints_text",
    "version",
    "difficulty",
    "FAIL_TO_PASS",
    "PASS_TO_PASS",
    "query",
    "test_cmd",
)
"""Columns that are read; others are left alone."""
DATA_FILES = (
    ".json",
    ".png",
    ".csv",
    ".txt",
    ".md",
    ".jpg",
    ".jpeg",
    ".pkl",
    ".yml",
    ".yaml",
    ".toml",
)
"""Files of a test patch that no test command names."""


def _ids(given: Any) -> Any:
    """A list of test ids, or the JSON text of one."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given) if given.strip() else []
    except ValueError:
        raise PydanticCustomError("broken_test_list", "is no JSON list of test ids") from None


def _commit(given: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}", given):
        raise PydanticCustomError("no_commit", "is no commit id of 40 hex digits")
    return given


def _diff(given: str) -> str:
    if "--- " not in given and "diff --git " not in given:
        raise PydanticCustomError("no_diff", "is no unified diff")
    return given


TestIds = Annotated[tuple[str, ...], BeforeValidator(_ids)]
Diff = Annotated[Text, AfterValidator(_diff)]


class Instance(BaseModel):
    """A repository's issue, its fix, and the tests that tell."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    repo: Text
    instance_id: Text
    base_commit: Annotated[str, AfterValidator(_commit)]
    patch: Diff
    test_patch: Diff
    problem_statement: Text
    hints_text: str | None = ""
    version: str | None = ""
    difficulty: str | None = ""
    FAIL_TO_PASS: TestIds
    PASS_TO_PASS: TestIds = ()
    query: str | None = None
    """The user's fixed first message, where the data holds one."""
    test_cmd: str | None = None
    """The command that runs its tests, where the data holds one; the tests' names follow it."""

    @property
    def title(self) -> str:
        """The issue's title: its first line that is not blank."""
        return next(line.strip() for line in self.problem_statement.splitlines() if line.strip())

    @property
    def test_files(self) -> tuple[str, ...]:
        """Files of the test patch that the test command names."""
        named = re.findall(r"^diff --git a/.* b/(.*)$", self.test_patch, re.MULTILINE)
        return tuple(dict.fromkeys(name for name in named if not name.endswith(DATA_FILES)))


_OWN_REASONS = ("broken_test_list", "no_commit", "no_diff")


def parse_row(raw: dict[str, Any]) -> Instance:
    """A row as a validated instance.

    Raises:
        BadRow: what `validated` says, one of its own reasons, or no_tests.
    """
    instance = validated(Instance, raw, _OWN_REASONS)
    if not instance.FAIL_TO_PASS and not instance.PASS_TO_PASS:
        raise BadRow("no_tests", f"{instance.instance_id} names no test that has to pass")
    return instance

"""Rows of SWE-bench's format, from Parquet, the Hugging Face hub, CSV or JSONL."""

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from tasks.benchmarks.raw_rows import BadRow, Text, validated

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
"""Columns to read. Others are ignored."""
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
"""Suffixes of files in a test patch that the test command omits."""


def _ids(value: Any) -> Any:
    """Return a list of test ids, or parse it from JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else []
    except ValueError:
        raise PydanticCustomError("broken_test_list", "is no JSON list of test ids") from None


def _commit(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}", text):
        raise PydanticCustomError("no_commit", "is no commit id of 40 hex digits")
    return text


def _diff(text: str) -> str:
    if "--- " not in text and "diff --git " not in text:
        raise PydanticCustomError("no_diff", "is no unified diff")
    return text


TestIds = Annotated[tuple[str, ...], BeforeValidator(_ids)]
Diff = Annotated[Text, AfterValidator(_diff)]


class Instance(BaseModel):
    """Issue of a repository, with its fix and the tests that verify it."""

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
    """User's fixed first message, if the data has one."""
    test_cmd: str | None = None
    """Command that runs the tests, if the data has one. The tests' names are appended."""

    @property
    def title(self) -> str:
        """Return the issue's title, which is its first line that is not blank."""
        return next(line.strip() for line in self.problem_statement.splitlines() if line.strip())

    @property
    def test_files(self) -> tuple[str, ...]:
        """Return the files of the test patch for the test command."""
        names = re.findall(r"^diff --git a/.* b/(.*)$", self.test_patch, re.MULTILINE)
        return tuple(dict.fromkeys(name for name in names if not name.endswith(DATA_FILES)))


_OWN_REASONS = ("broken_test_list", "no_commit", "no_diff")


def parse_row(raw: dict[str, Any]) -> Instance:
    """Return a row as a validated instance.

    Raises:
        BadRow: The row is invalid, with a reason of `validated`, `_OWN_REASONS`, or no_tests.
    """
    instance = validated(Instance, raw, _OWN_REASONS)
    if not instance.FAIL_TO_PASS and not instance.PASS_TO_PASS:
        raise BadRow("no_tests", f"{instance.instance_id} has no test that must pass")
    return instance

"""Problems: instructions with the tests that decide them (CodeIF-Bench section 3.1).

A problem can name a tree of files. The position of its answer there is a definition that the answer
replaces, and tests are added to their files.
"""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen

SuiteKind = Literal[
    "statements", "unittest", "asserts", "check", "pytest", "java", "javascript", "patch"
]
"""Form of a program's tests.

`statements`: Python statements that run after the code in one program and count as one test.
`asserts`: the same, but each statement is a test. `check`: text that defines a function `check`,
which is called with the entry point (HumanEval). `unittest`: module of unittest classes; code and
tests run as one module that is not `__main__`. `pytest`: node ids in a tree of files. `java`,
`javascript`: text that follows the code in one file; the test passes if its class `Main` (Java) or
the file (JavaScript) runs to its end. `patch`: test ids of a repository; the code is a patch to it.
"""

BASE_INSTRUCTION = "base"


class TestSuite(Frozen):
    """Tests that together decide one instruction. All must pass."""

    __test__ = False  # not a pytest class

    tests: tuple[str, ...] = Field(min_length=1)
    """Tests that run after the candidate's code in one program: statements, or the text of one
    module."""
    kind: SuiteKind = "statements"


NO_TESTS = TestSuite(tests=("pass",))
"""Test suite of a task that no tests decide. Its text is never run."""


class Instruction(Frozen):
    """Verifiable instruction I_k with its tests T_k."""

    instruction_id: str
    text: str
    suite: TestSuite


RUNNER, COMMAND, SERVICES = "PARLEY_RUNNER", "PARLEY_COMMAND", "PARLEY_SERVICES"
"""Names among `RepoSnapshot.variables`: the repository's test runner, the words of the runner's
command (one a line), and the programs that serve the tests on loopback (JSON list of `port` and
`arguments` for the environment's Python). The tests do not see these variables. Fields would change
the columns of `problems`, so every stored lake would need a migration."""


class RepoSnapshot(Frozen):
    """Repository at one commit, for repository-level problems."""

    repo: str
    base_commit: str
    test_patch: str = ""
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    version: str = ""
    """Version of the project, as the dataset states it."""
    tree: str = ""
    """Digest of the files at the base commit, with that commit as the only one of the git history;
    empty until the commit is resolved."""
    tested_tree: str = ""
    """Digest of the files at the base commit with the test patch applied."""
    environment: str = ""
    """Digest of the packages that the programs run with, or `image:` and the Docker image that
    contains them, pinned by digest. Empty for Parley's own Python."""
    test_files: tuple[str, ...] = ()
    """Files that contain the tests."""
    python_flags: tuple[str, ...] = ()
    pytest_flags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables of the tests."""
    web_tests: tuple[str, ...] = ()
    """Tests of `fail_to_pass` and `pass_to_pass` that need public web pages, which no sandbox has.
    If there are any, the problem is not scored."""

    @property
    def runner(self) -> str:
        """Kind of the project's own test runner (`django`, `sympy`, `unittest`).

        Empty for pytest.
        """
        return dict(self.variables).get(RUNNER, "")

    @property
    def command(self) -> tuple[str, ...]:
        """Command of the project's own runner; Parley appends the names of the tests.

        It begins with a script's path below the repository's root, or with `-m` and a module.
        """
        return tuple(dict(self.variables).get(COMMAND, "").splitlines())


class Problem(Frozen):
    """One task. `instructions[0]` is the base instruction."""

    benchmark: str
    dataset_version: str
    problem_id: str
    level: str
    prompt: str
    instructions: tuple[Instruction, ...] = Field(min_length=1)
    reference_code: str
    packages: tuple[str, ...] = ()
    """Distributions that the tests import."""
    source_file: str
    source_line: int = Field(ge=1)
    row_digest: str
    repo: RepoSnapshot | None = None

    def instruction(self, instruction_id: str) -> Instruction:
        """Return the instruction with this id.

        Raises:
            KeyError: the problem has no such instruction.
        """
        for instruction in self.instructions:
            if instruction.instruction_id == instruction_id:
                return instruction
        raise KeyError(f"{self.problem_id} has no instruction {instruction_id!r}")


class QuarantinedRow(Frozen):
    """Input row that was not staged, and the reason.

    `source_line` is 0 if the whole file is meant.
    """

    benchmark: str
    dataset_version: str
    source_file: str
    source_line: int = Field(ge=0)
    reason: str
    """Short machine-readable name: broken_json, missing_field, wrong_type, duplicate_id, ..."""
    detail: str
    excerpt: str = ""


class Definition(Frozen):
    """Function or method that the answer replaces."""

    name: str
    """Name, with its class if it has one, such as `Queue.put`."""
    first_line: int
    """1-based number of the definition's first line in the dataset's version of the file."""
    last_line: int
    """1-based number of the definition's last line in the dataset's version of the file. If the
    file has other text at these lines, Parley searches for the definition by name."""


class AddedTest(Frozen):
    """Test that the tree lacks."""

    node_id: str
    """Node id in pytest's form."""
    text: str
    """Function, or method without its indentation. It is appended to the node's class, or to its
    file."""


class Placing(Frozen):
    """Positions of code and tests in a tree of files."""

    definition: Definition
    added: tuple[AddedTest, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders of the tree that are on Python's import path, beside the tree itself."""
    environment: str = ""
    """Folder of the tree with the packages that its tests import, including their version of
    pytest; empty if it has none."""

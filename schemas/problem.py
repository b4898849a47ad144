"""Problems: instructions, and the tests that decide them (CodeIF-Bench section 3.1: D = {(I_k, T_k)})."""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen

SuiteKind = Literal[
    "statements", "unittest", "asserts", "check", "pytest", "java", "javascript", "patch"
]
"""What a program's tests are. `statements`: Python statements that follow the code in one program, together one test. `asserts`:
the same, each a test of its own. `check`: a text that defines `check`, which is called with the entry point (HumanEval).
`unittest`: a module of unittest classes; code and tests run as one module that is not `__main__`. `pytest`: node ids in a tree of
files. `java`, `javascript`: text that follows the code in one file, whose class `Main`, or which itself, comes to its end.
`patch`: test ids of a repository; the code is a patch to it."""

BASE_INSTRUCTION = "base"


class TestSuite(Frozen):
    """Tests that together decide one instruction; all must pass."""

    __test__ = False  # not a pytest class

    tests: tuple[str, ...] = Field(min_length=1)
    """Run after the candidate's code in one program: statements, or the text of one module."""
    kind: SuiteKind = "statements"


NO_TESTS = TestSuite(tests=("pass",))
"""Suite of a task that no tests decide. Its text is never run."""


class Instruction(Frozen):
    """A verifiable instruction I_k with its tests T_k."""

    instruction_id: str
    text: str
    suite: TestSuite


RUNNER, COMMAND, SERVICES = "PARLEY_RUNNER", "PARLEY_COMMAND", "PARLEY_SERVICES"
"""Names among a repository's variables that state its test runner, the words of its command, a line each, and the programs that
serve its tests on loopback (JSON: of each `port`, and `arguments` of the environment's Python). The tests do not see them.
Fields of their own would change the columns of the table of problems, and so make every kept lake need a migration."""


class RepoSnapshot(Frozen):
    """A repository at one commit, for repository-level problems."""

    repo: str
    base_commit: str
    test_patch: str = ""
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    version: str = ""
    """Of the project, as the dataset tells it."""
    tree: str = ""
    """Digest of its files at that commit with a history of this one commit; empty until it was looked up in a repository."""
    tested_tree: str = ""
    """Digest of the same with the test patch."""
    environment: str = ""
    """Digest of the packages that its programs run with, or `image:` and the Docker image that has them, pinned by digest; empty
    for Parley's own Python."""
    test_files: tuple[str, ...] = ()
    """What its tests are run by."""
    python_flags: tuple[str, ...] = ()
    pytest_flags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    """Of the environment that its tests run in."""
    web_tests: tuple[str, ...] = ()
    """Tests among its lists that ask for public web pages, which no sandbox has: it is not scored then."""

    @property
    def runner(self) -> str:
        """Kind of the project's own test runner (`django`, `sympy`, `unittest`); empty for pytest."""
        return dict(self.variables).get(RUNNER, "")

    @property
    def command(self) -> tuple[str, ...]:
        """That runner's script below the root, or `-m` and a module, with its arguments; the tests' names follow."""
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
        """The instruction of that name.

        Raises:
            KeyError: the problem has no such instruction.
        """
        for instruction in self.instructions:
            if instruction.instruction_id == instruction_id:
                return instruction
        raise KeyError(f"{self.problem_id} has no instruction {instruction_id!r}")


class QuarantinedRow(Frozen):
    """An input row that was not staged, and why. `source_line` is 0 where the whole file is meant."""

    benchmark: str
    dataset_version: str
    source_file: str
    source_line: int = Field(ge=0)
    reason: str
    """A short machine-readable name: broken_json, missing_field, wrong_type, duplicate_id, ..."""
    detail: str
    excerpt: str = ""

"""Programs with tests: one type for each form of tests that benchmarks use."""

from collections.abc import Mapping

from pydantic import model_validator

from sandbox.judging.runners.placed_files import placed
from schemas.base import Frozen
from schemas.problem import Placing, SuiteKind


class StatementProgram(Frozen):
    """Python code and statements that follow it, which get one verdict without cases.

    CodeIF-Bench judges programs in this way.
    """

    code: str
    tests: tuple[str, ...]


class AssertProgram(Frozen):
    """Python code and a list of tests.

    Each test has its own verdict, which does not depend on earlier tests.
    """

    code: str
    tests: tuple[str, ...]


class CheckProgram(Frozen):
    """Program in HumanEval's form.

    Prompt and completion are the code. `test` defines `check`, which is called with the entry
    point.
    """

    prompt: str
    completion: str
    test: str
    entry_point: str

    @property
    def code(self) -> str:
        """Return the code that runs before the test."""
        return self.prompt + self.completion


class UnittestProgram(Frozen):
    """Code and a module of unittest classes (BigCodeBench).

    Both run as one module that is not `__main__`.
    """

    code: str
    test: str


class RepositoryProgram(Frozen):
    """Working folder and the pytest node ids to run in it."""

    files: tuple[tuple[str, bytes], ...]
    """Files: (name relative to the folder, content)."""
    node_ids: tuple[str, ...]
    by_candidate: tuple[str, ...] = ()
    """Names of files that the candidate wrote or changed. If one is a conftest.py, a test file or a
    start-up file, that counts as tampering.
    """
    arguments: tuple[str, ...] = ()
    """Additional options of pytest. The option `addopts` in the folder's own settings is ignored.
    """
    folders: tuple[str, ...] = ()
    """Subfolders from which Python imports modules, in addition to the folder itself. Missing ones
    are skipped.
    """
    environment: str = ""
    """Subfolder with packages that take precedence over the sandbox's own packages."""

    @model_validator(mode="after")
    def _names_are_known(self) -> "RepositoryProgram":
        unknown = set(self.by_candidate) - {name for name, _ in self.files}
        if unknown:
            raise ValueError(
                f"by_candidate contains {sorted(unknown)[0]!r}, which is not among the files"
            )
        return self


class JavaProgram(Frozen):
    """Java program in one file: prompt, completion and test. The test's class `Main` runs."""

    prompt: str
    completion: str
    test: str


class JavaScriptProgram(Frozen):
    """JavaScript program for node: prompt, completion and test. Tests may require lodash."""

    prompt: str
    completion: str
    test: str


PythonProgram = StatementProgram | AssertProgram | CheckProgram | UnittestProgram
"""Programs whose tests run after the code in the same process."""
TestProgram = PythonProgram | RepositoryProgram | JavaProgram | JavaScriptProgram


def program_of(
    kind: SuiteKind,
    code: str,
    tests: tuple[str, ...],
    entry_point: str = "",
    files: Mapping[str, bytes] | None = None,
    placing: Placing | None = None,
) -> TestProgram:
    """Return the program that consists of an answer and its tests.

    Args:
        kind: form of the tests.
        code: the answer.
        tests: tests in the form that `SuiteKind` describes. For `check` and `unittest` the items
            are pieces of one text.
        entry_point: for `check`, the name that is called; for `pytest`, the file of the tree that
            contains the answer.
        files: for `pytest`, the tree without the answer.
        placing: for `pytest`, the position of the answer and of additional tests in the tree,
            unless the answer is a complete file.

    Raises:
        LookupError: the file or definition that the answer replaces does not exist.
    """
    text = "\n".join(tests)
    match kind:
        case "statements":
            return StatementProgram(code=code, tests=tests)
        case "asserts":
            return AssertProgram(code=code, tests=tests)
        case "check":
            return CheckProgram(prompt="", completion=code, test=text, entry_point=entry_point)
        case "unittest":
            return UnittestProgram(code=code, test=text)
        case "pytest":
            tree = placed(files or {}, entry_point, code, placing)
            return RepositoryProgram(
                files=tuple(sorted(tree.items())),
                node_ids=tests,
                by_candidate=(entry_point,),
                folders=placing.folders if placing else (),
                environment=placing.environment if placing else "",
            )
        case "java":
            return JavaProgram(prompt="", completion=code, test=text)
        case "javascript":
            return JavaScriptProgram(prompt="", completion=code, test=text)
        case "patch":
            raise ValueError(
                "this function cannot grade a patch: use `sandbox.judging.patched_repository`"
            )

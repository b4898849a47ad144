"""Programs for tests, many in a text file: a line `### name`, then the program.

A line `# audit` below the name marks a program that passes plainly: the audit has to convict it.
"""

from pathlib import Path

from sandbox.interface import Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL
from sandbox.judging.runners.programs import program_of
from sandbox.judging.runners.run import run_tests
from schemas.problem import SuiteKind
from schemas.run import Limits
from schemas.verdict import ProgramVerdict

_MARK = "# audit\n"


def programs(file_name: str) -> dict[str, str]:
    """Map each name to its program, in the file's order, without marks."""
    return {name: text.removeprefix(_MARK) for name, text in _sections(file_name).items()}


def audited(file_name: str) -> frozenset[str]:
    """List the names of the programs that pass plainly."""
    return frozenset(name for name, text in _sections(file_name).items() if text.startswith(_MARK))


def held(file_name: str) -> dict[str, str]:
    """Map the name of each program that does not pass plainly to the program."""
    return {name: text for name, text in _sections(file_name).items() if not text.startswith(_MARK)}


def _sections(file_name: str) -> dict[str, str]:
    _, *sections = (Path(__file__).parent / file_name).read_text().split("\n### ")
    return {
        section.partition("\n")[0]: section.partition("\n")[2].strip("\n") + "\n"
        for section in sections
    }


def run_program(
    sandbox: Sandbox, kind: SuiteKind, code: str, tests: tuple[str, ...], limits: Limits
) -> ProgramVerdict:
    """Run code with its tests, as a dialogue's participant would."""
    return run_tests(sandbox, program_of(kind, code, tests), limits, LONGEST_CASE_DETAIL)

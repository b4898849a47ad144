"""Programs that a seat has run while its dialogue goes on."""

from dataclasses import dataclass
from typing import Protocol

from schemas.problem import SuiteKind
from schemas.verdict import ProgramVerdict


@dataclass(frozen=True)
class WantedProgram:
    """Code and its tests."""

    kind: SuiteKind
    code: str
    tests: tuple[str, ...]


class ProgramRunner(Protocol):
    """Runs programs for a seat while its dialogue goes on. Equal programs are run once."""

    async def run(self, kind: SuiteKind, code: str, tests: tuple[str, ...]) -> ProgramVerdict:
        """Run the tests on the code and report; waits for a free place.

        Raises:
            SandboxUnavailable: the sandbox could not run it; the engine makes the episode infra.
        """
        ...

"""Programs that a seat runs during its dialogue."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from schemas.content_id import content_id
from schemas.placing import Placing
from schemas.problem import SuiteKind
from schemas.run import Limits
from schemas.verdict import ProgramVerdict


@dataclass(frozen=True)
class Tree:
    """Files that tests run in. Ids contain their digest, not their location."""

    digest: str
    folder: Path
    """Location of the files. If it is missing, programs in it are unscored."""
    resource: str = ""
    """Resource of the run (`--resource NAME=PATH`) that contains the folder.

    Empty if there is none.
    """
    packages: str = ""
    """Digest of names and versions of the packages in the folder. Empty if it has none."""

    @property
    def name(self) -> str:
        """Return the digest of files and packages that verdict ids contain."""
        return content_id([self.digest, self.packages]) if self.packages else self.digest


@dataclass(frozen=True)
class Place:
    """Location and limits of a program of the kind `pytest`."""

    tree: Tree
    entry_point: str
    """File of the tree that contains the answer."""
    placing: Placing | None = None
    """Position of the answer within the file.

    None if the answer is the complete file and the tree has all tests.
    """
    limits: Limits | None = None
    """Limits of this program. None for the setting's limits."""


@dataclass(frozen=True)
class WantedProgram:
    """Code with its tests."""

    kind: SuiteKind
    code: str
    tests: tuple[str, ...]
    place: Place | None = None


class ProgramRunner(Protocol):
    """Runner of programs for a seat during its dialogue. Equal programs run once."""

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None
    ) -> ProgramVerdict:
        """Run the tests on the code and return the report. Wait for a free sandbox.

        Raises:
            SandboxUnavailable: The sandbox could not run it. The engine ends the episode as infra.
            Unscorable: The program's tree is missing.
        """
        ...

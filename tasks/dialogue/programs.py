"""Programs that a seat has run while its dialogue goes on."""

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
    """Files that tests run in. The digest names them in ids; where they lie on a machine is in no id."""

    digest: str
    folder: Path
    """Where it is missing, its programs are unscored."""
    resource: str = ""
    """The run's resource (`--resource NAME=PATH`) that the folder lies in; empty where the folder says all."""
    packages: str = ""
    """Digest over names and versions of the packages that lie in the folder; empty where it has none."""

    @property
    def name(self) -> str:
        """What names files and packages in the ids of verdicts."""
        return content_id([self.digest, self.packages]) if self.packages else self.digest


@dataclass(frozen=True)
class Place:
    """Where a program of the kind `pytest` runs."""

    tree: Tree
    entry_point: str
    """The file of the tree that holds the answer."""
    placing: Placing | None = None
    """None: the answer is the whole file, and the tree has all tests."""
    limits: Limits | None = None
    """Its own bounds; None for the setting's."""


@dataclass(frozen=True)
class WantedProgram:
    """Code and its tests."""

    kind: SuiteKind
    code: str
    tests: tuple[str, ...]
    place: Place | None = None


class ProgramRunner(Protocol):
    """Runs programs for a seat while its dialogue goes on. Equal programs are run once."""

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None
    ) -> ProgramVerdict:
        """Run the tests on the code and report; waits for a free place.

        Raises:
            SandboxUnavailable: the sandbox could not run it; the engine makes the episode infra.
            Unscorable: the tree that it runs in is not there.
        """
        ...

"""Which programs a benchmark wants run on its answers, and what they need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from sandbox import registry as sandboxes
from sandbox.host.python_environment import environment_folders
from sandbox.interface import Sandbox
from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.placing import Placing
from schemas.problem import Problem, RepoSnapshot, SuiteKind
from schemas.run import Limits
from tasks.dialogue.programs import Place
from tasks.dialogue.programs import Tree as Tree


@dataclass(frozen=True)
class TestRun:
    """One program to execute: one instruction's tests on one turn's answer. `code` is None where there is no answer."""

    __test__ = False  # not a pytest class

    turn: int
    instruction_id: str
    code: str | None
    tests: tuple[str, ...]
    """As `kind` says: statements, a module's text, pytest's node ids, text that follows the code."""
    kind: SuiteKind = "statements"
    entry_point: str = ""
    """Of `check` the name that is called; of `pytest` the file of the tree that holds the answer."""
    tree: Tree | None = None
    image: str = ""
    """Where it runs, pinned by digest; the sandbox's own place where it is empty. Unscored in a sandbox that runs no images."""
    repository: RepoSnapshot | None = None
    """Of `patch`: what the patch is for, and the tests that judge it."""
    limits: Limits | None = None
    """Its own bounds; None for the setting's."""
    placing: Placing | None = None
    """How the answer and further tests get into the tree; None where the answer is a whole file, and the tree has all tests."""
    decides: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Instruction -> names of the cases that decide it, where one program decides several; `instruction_id` is then unused."""
    reference: str | None = None
    """The reference's code in the place of the answer's, for the audit; None where the data has none. In no verdict's id."""
    is_readable: bool = True
    """False where no program was found in the answer, and `code` is what stands there instead. In no verdict's id."""

    @classmethod
    def in_place(
        cls,
        turn: int,
        code: str | None,
        tests: tuple[str, ...],
        place: Place,
        decides: Mapping[str, tuple[str, ...]],
        reference: str | None = None,
        is_readable: bool = True,
    ) -> Self:
        """One program of pytest's nodes that decides several instructions."""
        return cls(
            turn=turn,
            instruction_id="",
            code=code,
            tests=tests,
            kind="pytest",
            entry_point=place.entry_point,
            tree=place.tree,
            limits=place.limits,
            placing=place.placing,
            decides=decides,
            reference=reference,
            is_readable=is_readable,
        )

    @property
    def rows(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each instruction that it decides, with the names of the cases; none where all decide."""
        return tuple(self.decides.items()) or ((self.instruction_id, ()),)


class TestRuns(Protocol):
    """Names the programs of an episode. Pure."""

    __test__ = False  # not a pytest class

    def __call__(
        self, problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
    ) -> Sequence[TestRun]: ...


@dataclass(frozen=True)
class Programs:
    """Which tests run, and what they need."""

    test_runs: TestRuns
    limits: Limits = field(default_factory=Limits)
    packages: tuple[str, ...] = ()
    """Distributions that test programs import: the sandbox must offer them."""
    preload: tuple[str, ...] = ()
    """Modules that take long to import and that many programs import. A sandbox with a warm Python keeps them loaded."""
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    """Distribution -> module that it is imported as, where the names differ. Any distribution with that module will do."""
    environments: Mapping[str, str] = field(default_factory=dict[str, str])
    """Dataset version -> name of the environment, made by `make NAME`, whose packages its programs find in place of ours."""

    def package_folders(self, dataset_version: str) -> tuple[str, ...]:
        """Return the folders of that environment; none where the version has none, or it is not installed."""
        name = self.environments.get(dataset_version)
        return environment_folders(name) if name else ()

    def load_sandbox(self, name: str, dataset_version: str) -> Sandbox:
        """Make the sandbox that programs of this dataset version run in, with their packages and imports loaded if it can.

        Raises:
            UnknownName: there is no sandbox of that name.
        """
        return sandboxes.load_with(name, self.preload, self.package_folders(dataset_version))

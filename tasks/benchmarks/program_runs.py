"""Test programs of a benchmark and their requirements."""

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
    """Run of one instruction's tests on the answer of one turn."""

    __test__ = False  # not a pytest class

    turn: int
    """Turn of the answer, from 1."""
    instruction_id: str
    code: str | None
    """Program of the answer. None if there is no answer."""
    tests: tuple[str, ...]
    """Tests in the form given by `kind`: statements, module, pytest ids, or text after the code."""
    kind: SuiteKind = "statements"
    entry_point: str = ""
    """For `check` the name to call, for `pytest` the file of the tree that holds the answer."""
    tree: Tree | None = None
    image: str = ""
    """Container image, pinned by digest.

    Empty means the sandbox's own environment. A sandbox without images leaves the run unscored.
    """
    repository: RepoSnapshot | None = None
    """For `patch`: the repository that it applies to, and the tests."""
    limits: Limits | None = None
    """Limits of this run. None means the setting's limits."""
    placing: Placing | None = None
    """Placement of the answer and further tests in the tree.

    None if the answer is a complete file and the tree has all tests.
    """
    decides: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Test case names by instruction, if one program decides several.

    `instruction_id` is then ignored.
    """
    reference: str | None = None
    """Reference code to run in place of the answer, for the audit.

    None if there is none. Not part of the verdict's id.
    """
    is_readable: bool = True
    """False if no program was found in the answer and `code` is a substitute.

    Not part of the verdict's id.
    """

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
        """Return a run of pytest tests that decides several instructions."""
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
        """Return the instructions that this run decides, with their test cases (empty for all)."""
        return tuple(self.decides.items()) or ((self.instruction_id, ()),)


class TestRuns(Protocol):
    """Function that returns the test runs of an episode. It must be pure."""

    __test__ = False  # not a pytest class

    def __call__(
        self, problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
    ) -> Sequence[TestRun]: ...


@dataclass(frozen=True)
class Programs:
    """Test programs and their requirements."""

    test_runs: TestRuns
    limits: Limits = field(default_factory=Limits)
    packages: tuple[str, ...] = ()
    """Distributions that test programs import. The sandbox must provide them."""
    preload: tuple[str, ...] = ()
    """Frequently used modules with slow imports. A sandbox with a warm Python preloads them."""
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    """Module name of each distribution whose module has another name.

    Any distribution with that module satisfies the requirement.
    """
    environments: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment made with `make NAME` by dataset version.

    Its packages replace ours for programs.
    """

    def package_folders(self, dataset_version: str) -> tuple[str, ...]:
        """Return the environment's package folders. Empty without an installed environment."""
        name = self.environments.get(dataset_version)
        return environment_folders(name) if name else ()

    def load_sandbox(self, name: str, dataset_version: str) -> Sandbox:
        """Return the sandbox for a dataset version's programs, with packages and preloaded modules.

        Raises:
            UnknownName: No sandbox has that name.
        """
        return sandboxes.load_with(name, self.preload, self.package_folders(dataset_version))

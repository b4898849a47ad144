"""Test programs of a benchmark: answers with tests, patches, and the files that they run in."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from sandbox import registry as sandboxes
from sandbox.host.python_environment import environment_folders
from sandbox.interface import Sandbox
from schemas.content_id import content_id
from schemas.dialog import MISSING, Dialog, Role
from schemas.episode import Episode, StepKind, StopReason
from schemas.problem import BASE_INSTRUCTION, Placing, Problem, RepoSnapshot, SuiteKind
from schemas.run import Limits
from tasks.benchmarks.setting import Option, Options
from tasks.benchmarks.staging import Staged
from tasks.dialogue.agents.repository.labels import PATCH
from tasks.dialogue.tools import NO_TREE, Place, WantedProgram
from tasks.dialogue.tools import Tree as Tree
from tasks.language.markdown_code import ExtractedCode, entry_points, paper_code, python_code
from tasks.storage.files.source_trees import TreeDigests, tree_digests
from tasks.storage.home import Home

if TYPE_CHECKING:
    from tasks.benchmarks.advanced import Resolve


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
    def of(
        cls,
        turn: int,
        instruction_id: str,
        program: ExtractedCode | None,
        tests: tuple[str, ...],
        kind: SuiteKind = "statements",
        entry_point: str = "",
        reference: str | None = None,
    ) -> Self:
        """Return the run of tests on an answer's program. None stands for a missing answer."""
        return cls(
            turn=turn,
            instruction_id=instruction_id,
            code=None if program is None else program.code,
            tests=tests,
            kind=kind,
            entry_point=entry_point,
            reference=reference,
            is_readable=program is None or program.is_readable,
        )

    @property
    def program(self) -> WantedProgram:
        """Return the answer with the tests, as a program. Its place names a repository's digest."""
        tree = self.tree or NO_TREE
        if self.repository is not None:
            tree = Tree(content_id(self.repository), Path())
        place = Place(tree, self.entry_point, self.placing)
        return WantedProgram(
            self.kind,
            self.code or "",
            self.tests,
            place if tree.name or self.entry_point else None,
            self.limits,
            self.image,
            self.repository,
        )

    @property
    def rows(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the instructions that this run decides, with their test cases (empty for all)."""
        return tuple(self.decides.items()) or ((self.instruction_id, ()),)


TestRuns = Callable[[Problem, Dialog, Episode, Options], Sequence[TestRun]]
"""Function that returns the test runs of an episode. It must be pure."""


@dataclass(frozen=True)
class Programs:
    """Test programs of a benchmark, and what they need to run."""

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
    """Dataset version -> name of the environment, which `make NAME` installs.

    Programs import the environment's packages instead of Parley's.
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


EXTRACTION, FIRST_BLOCK, MARKDOWN = "extraction", "first_block", "markdown"


def extraction_option(affects: Literal["episode", "scoring"]) -> Option:
    """Return the extraction option of a setting.

    Args:
        affects: `episode` if participants read programs during the dialogue.
    """
    return Option(
        name=EXTRACTION,
        values=(FIRST_BLOCK, MARKDOWN),
        default=FIRST_BLOCK,
        affects=affects,
        help="how to extract the program of an answer: the first code block, as the papers' scripts"
        " do, or with a Markdown parser the last block that defines the entry point, else the"
        " longest block. The default is markdown in new runs of models, else first_block",
        new_runs=MARKDOWN,
    )


def reads_markdown(options: Options) -> bool:
    """Return True if programs are extracted with the Markdown parser."""
    return options.get(EXTRACTION) == MARKDOWN


def python_program(
    answer: str, options: Options, reference: str, tests: Iterable[str]
) -> ExtractedCode:
    """Return the Python program of an answer, extracted according to the run's option.

    Args:
        answer: Text of the answer.
        options: Options of the run.
        reference: Reference code of the task. The names that it defines and `tests` use are the
            entry points.
        tests: Texts of the tests.
    """
    if not reads_markdown(options):
        return paper_code(answer)
    return python_code(answer, entry_points(reference, tuple(tests)))


def base_program(problem: Problem, answer: str, options: Options) -> ExtractedCode:
    """Return the Python program of an answer to a problem, by the problem's base tests."""
    tests = problem.instruction(BASE_INSTRUCTION).suite.tests
    return python_program(answer, options, problem.reference_code, tests)


_BEGINS = re.compile(r"^(?:diff --git .*|--- \S.*\n\+\+\+ \S.*)$", re.MULTILINE)
_FENCE_ENDS = re.compile(r"^(?:`{3,}|~{3,})[ \t\r]*$", re.MULTILINE)
"""End of a fence at the start of a line. Lines of a diff start with a sign or a blank instead."""


def diff_in(answer: str) -> str | None:
    """Return the unified diff of an answer, or None.

    The diff extends from its first header to the end of its fence or of the text.
    """
    begins = _BEGINS.search(answer)
    if begins is None:
        return None
    diff = answer[begins.start() :]
    fence = _FENCE_ENDS.search(diff)
    diff = diff[: fence.start()] if fence else diff
    return diff if diff.endswith("\n") else f"{diff}\n"


def final_patch(episode: Episode) -> tuple[int, str | None]:
    """Return the last answered round and the final patch, which is empty if nothing changed.

    An agent's patch comes from its workspace alone. Without an agent, it is the last diff in an
    answer. The patch is None if there was no answer.
    """
    steps = [step for step in episode.steps if step.role is Role.ASSISTANT]
    artifacts = [
        step
        for step in steps
        if step.kind is StepKind.ARTIFACT and any(name == PATCH for name, _ in step.labels)
    ]
    answers = [step for step in steps if step.kind is StepKind.MESSAGE]
    turn = max((step.turn for step in (*artifacts, *answers)), default=1)
    if artifacts:
        return turn, artifacts[-1].content
    diffs = [diff for step in answers if (diff := diff_in(step.content)) is not None]
    return turn, diffs[-1] if diffs else "" if answers else None


def patch_run(
    problem: Problem, episode: Episode, decides: Mapping[str, tuple[str, ...]], image: str = ""
) -> TestRun:
    """Return the run of a repository's tests on the final patch of an episode.

    Args:
        problem: Problem with a repository.
        episode: Episode of the problem.
        decides: Tests by the instruction that they decide.
        image: Container image of the tests, pinned by digest, if any.
    """
    turn, patch = final_patch(episode)
    return TestRun(
        turn=turn,
        instruction_id="",
        code=None if episode.stop_reason is StopReason.INFRA else patch,
        tests=problem.instructions[0].suite.tests,
        kind="patch",
        repository=problem.repo,
        image=image,
        decides=decides,
        reference=problem.reference_code or None,
    )


@dataclass(frozen=True)
class Source:
    """Location of the files in which a dialog's programs run."""

    resource: str
    """Name of the benchmark's resource."""
    folder: str
    """Folder of the files, relative to the resource's folder."""
    packages: str = ""
    """Subfolder with installed packages, which are identified by name and version."""


FindSource = Callable[[Dialog], Source | None]
"""Function that returns the location of a dialog's files, or None if it needs none."""
FitsSource = Callable[[Dialog, Path], bool]
"""Function that checks if a dialog's programs can run in a folder's files.

Another release may lack the files that the programs change.
"""


def trees_below_resources(source_of: FindSource, fits: FitsSource) -> "Resolve":
    """Return a `Resolve` hook that adds to each dialog the digests of its files.

    The files stay in the resource's folder. A dialog whose files are missing or unsuitable is
    marked: it is not requested, and its scores are unscored for that reason.
    """

    def resolve(
        staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
    ) -> Staged:
        digests_by_source: dict[Source, TreeDigests | None] = {}

        def with_tree(dialog: Dialog) -> Dialog:
            location = source_of(dialog)
            if location is None:
                return dialog
            folder = (
                resources[location.resource] / location.folder
                if location.resource in resources
                else None
            )
            if location not in digests_by_source:
                digests_by_source[location] = (
                    tree_digests(folder, location.packages)
                    if folder is not None and folder.is_dir()
                    else None
                )
            digests = digests_by_source[location]
            if digests is None or folder is None or not fits(dialog, folder):
                return dialog.with_tree(MISSING)
            return dialog.with_tree(digests.source, digests.packages)

        return replace(staged, dialogs=map(with_tree, staged.dialogs))

    return resolve

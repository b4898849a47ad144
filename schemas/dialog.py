"""Staged dialogs: the planned messages, turn by turn (UniDial-EvalKit's schema; UDE section 3)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Self

from pydantic import Field

from schemas.base import Frozen
from schemas.content_id import content_id


class Role(StrEnum):
    """Role of a message, named as chat endpoints name it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    """Result of a tool call. A staged turn never has this role."""


class HistoryPolicy(StrEnum):
    """Part of the history that the model under test sees when it is asked for turn n."""

    ON_POLICY = "on_policy"
    """I_1, A_1, ..., I_n: the model's own earlier answers (CodeIF-Bench section 3.1)."""
    REFERENCE = "reference"
    """The dialog's reference answers replace the model's own."""
    LAST_CODE_AND_FEEDBACK = "last_code_and_feedback"
    """The problem, the previous code and the current feedback; nothing older (ConvCodeWorld)."""
    FIRST_ROUND = "first_round"
    """I_1, A_1, I_n: the first round and the new message, without the rounds between (CodeIF-Bench
    section 5.3)."""
    UPSTREAM_V0 = "upstream_v0"
    """Accumulated prompts, the base answer and the new requirement, as CodeIF-Bench's published
    n_round runs sent them."""


class MetricSpec(Frozen):
    """Metric to compute on a turn, with its arguments as text."""

    name: str
    arguments: tuple[tuple[str, str], ...] = ()


class Turn(Frozen):
    """One turn of a staged dialog.

    `turn` is the 1-based number of the round: a user turn and its answer share a number.
    """

    turn: int = Field(ge=1)
    role: Role
    content: str | None = None
    """Text of the turn; None if the model under test answers."""
    do_eval: bool | None = None
    """On an assistant's turn: True if the model under test answers, even if `content` is set; False
    if `content` is used as the answer. None: the model answers if there is no content."""
    reference: str | None = None
    instruction_id: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    metrics: tuple[MetricSpec, ...] = ()

    @property
    def is_generated(self) -> bool:
        """True if the model under test answers this turn."""
        return self.role is Role.ASSISTANT and (
            self.content is None if self.do_eval is None else self.do_eval
        )


TREE, MISSING = "_tree", "missing"
"""Label of a dialog whose programs run in a tree of files. Its value is the digest of the files, or
`missing`."""
UNUSABLE = "environment_missing"
"""Value of the label `_tree` if the files exist, but their own tests fail in the sandbox, for
example because packages are missing."""
ENVIRONMENT_FAULT = "_environment_fault"
"""Label beside a `_tree` that is `UNUSABLE`: the test runner's report on the failed tests."""
TREE_PACKAGES = "_tree_packages"
"""Label beside `_tree`: digest of the names and versions of the packages in the tree. Absent if the
tree contains no packages."""

EDITION = "_edition"
"""Label of a dialog whose questions a user's templates render: digest of these templates."""


class Dialog(Frozen):
    """One staged dialogue over one problem."""

    benchmark: str
    dataset_version: str
    dialog_id: str
    problem_id: str
    turns: tuple[Turn, ...] = Field(min_length=1)
    labels: tuple[tuple[str, str], ...] = ()
    row_digest: str
    """Digest of the raw rows that the dialog was made from: its problem's row, and the dialog's own
    rows if there are any."""
    problem_digest: str = ""
    """Digest of the raw row of the dialog's problem; empty if the dialog has no rows of its own."""
    context_id: str | None = None
    """Id of a context (table `contexts`) whose first turns precede the dialog's own."""
    context_turns: int = Field(default=0, ge=0)
    """Number of turns taken from the start of the context."""

    @property
    def digest(self) -> str:
        """Digest of everything that can change the dialogue: rows, context turns, tree of files."""
        context = [] if self.context_id is None else [self.context_id, self.context_turns]
        tree = [] if self.tree is None else [TREE, self.tree]
        return (
            content_id([self.row_digest, *context, *tree]) if context or tree else self.row_digest
        )

    @property
    def digest_with_packages(self) -> str:
        """Digest of everything that can change the dialogue, and of the tree's packages.

        Verdicts depend on the packages. The dialogue does not.
        """
        return (
            content_id([self.digest, TREE_PACKAGES, self.tree_packages])
            if self.tree_packages
            else self.digest
        )

    @property
    def tree_packages(self) -> str:
        """Digest of the names and versions of the packages in the tree; empty if it has none."""
        return dict(self.labels).get(TREE_PACKAGES, "")

    @property
    def tree(self) -> str | None:
        """Digest of the programs' tree of files, `MISSING` or `UNUSABLE`; None without a tree."""
        return dict(self.labels).get(TREE)

    @property
    def is_sourceless(self) -> bool:
        """True if nothing is asked, because the programs' files are missing or unusable."""
        return self.tree in (MISSING, UNUSABLE)

    @property
    def environment_fault(self) -> str | None:
        """Test runner's report on failed tests of the tree; None if all pass or none was run."""
        return dict(self.labels).get(ENVIRONMENT_FAULT)

    @property
    def edition(self) -> str:
        """Digest of the custom question templates (`--templates`); empty if none are used."""
        return dict(self.labels).get(EDITION, "")

    def without_environment(self, fault: str) -> "Dialog":
        """Return the dialog, marked as one whose tree fails its own tests.

        Its digest differs, so the dialog is asked once the tests pass.

        Args:
            fault: the test runner's report. No digest contains it.
        """
        unusable = self.with_tree(UNUSABLE)
        return unusable.model_copy(
            update={"labels": (*unusable.labels, (ENVIRONMENT_FAULT, fault))}
        )

    def with_tree(self, digest: str, packages: str = "") -> "Dialog":
        """Return the dialog with a tree of these files and packages, both given as digests."""
        others = tuple(
            label
            for label in self.labels
            if label[0] not in (TREE, TREE_PACKAGES, ENVIRONMENT_FAULT)
        )
        beside = ((TREE_PACKAGES, packages),) if packages else ()
        return self.model_copy(update={"labels": (*others, (TREE, digest), *beside)})

    @property
    def scripted_answers(self) -> Mapping[int, str]:
        """Map each round that has a scripted answer to that answer."""
        return {
            t.turn: t.content or ""
            for t in self.turns
            if t.role is Role.ASSISTANT and not t.is_generated
        }

    @property
    def generated_turns(self) -> tuple[int, ...]:
        """Rounds that the model under test answers: the user's rounds without a scripted answer."""
        scripted = self.scripted_answers
        return tuple(t.turn for t in self.turns if t.role is Role.USER and t.turn not in scripted)

    @property
    def instruction_ids(self) -> tuple[str, ...]:
        """Instruction id of each round, in order. `base` is the first."""
        return tuple(t.instruction_id or "" for t in self.turns if t.role is Role.USER)


def dataset_digest(dialogs: Iterable[Dialog]) -> str:
    """Return a digest of these dialogs' rows and program environments, in any order."""
    return content_id(sorted(dialog.digest_with_packages for dialog in dialogs))


class Context(Frozen):
    """Long conversation that precedes many dialogs.

    It is stored once, and each of these dialogs names it.
    """

    benchmark: str
    dataset_version: str
    context_id: str
    """Digest of the turns, so that one id always names one text."""
    turns: tuple[Turn, ...] = Field(min_length=1)
    """Turns of the conversation. All of them are scripted."""

    @classmethod
    def of(cls, benchmark: str, dataset_version: str, turns: tuple[Turn, ...]) -> Self:
        """Build the context of these turns."""
        return cls(
            benchmark=benchmark,
            dataset_version=dataset_version,
            context_id=content_id(turns),
            turns=turns,
        )


class ExpertiseLevel(StrEnum):
    """How much a simulated user knows of programming, least first."""

    # Judges read the docstring in the schema of `UserLevel`. It is part of the rubric's digest,
    # and so of the ids of judged runs.

    NOVICE = "novice"
    INTERMEDIATE = "intermediate"
    EXPERT = "expert"


class Persona(Frozen):
    """Description of a simulated user. Its text is part of the episode's id."""

    persona_id: str
    level: ExpertiseLevel
    traits: tuple[tuple[str, str], ...] = ()

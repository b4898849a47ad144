"""Staged dialogs: the planned messages, turn by turn (the UniDial-EvalKit schema, typed; UDE section 3)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from pydantic import Field

from schemas.base import Frozen
from schemas.content_id import content_id


class Role(StrEnum):
    """Speaker of a message, by the names that chat endpoints use."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    """What came of a tool call. Never a role of a staged turn."""


class HistoryPolicy(StrEnum):
    """How much of the past the subject sees when it is asked for turn n."""

    ON_POLICY = "on_policy"
    """I_1, A_1, ..., I_n: its own answers (CodeIF-Bench section 3.1)."""
    REFERENCE = "reference"
    """The golden answers of the dialog stand in for its own."""
    LAST_CODE_AND_FEEDBACK = "last_code_and_feedback"
    """Problem, previous code, current feedback; nothing older (ConvCodeWorld)."""
    FIRST_ROUND = "first_round"
    """I_1, A_1, I_n: the first round and the new message; nothing between them (CodeIF-Bench section 5.3)."""
    UPSTREAM_V0 = "upstream_v0"
    """Accumulated prompts, the base answer, the new requirement: what CodeIF-Bench's published n_round runs sent."""


class MetricSpec(Frozen):
    """A metric to compute on a turn, with its arguments as text."""

    name: str
    arguments: tuple[tuple[str, str], ...] = ()


class Turn(Frozen):
    """One turn of a staged dialog; `turn` is 1-based and counts rounds (a user turn and its answer share a number)."""

    turn: int = Field(ge=1)
    role: Role
    content: str | None = None
    """None where the model under test answers."""
    do_eval: bool | None = None
    """On an assistant's turn: True where the model under test answers, whatever content stands there; False where the content is
    said as it stands. None: the model answers where there is no content."""
    reference: str | None = None
    instruction_id: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    metrics: tuple[MetricSpec, ...] = ()

    @property
    def is_generated(self) -> bool:
        """Whether the model under test says this turn."""
        return self.role is Role.ASSISTANT and (
            self.content is None if self.do_eval is None else self.do_eval
        )


TREE, MISSING = "_tree", "missing"
"""Label of a dialog whose programs run in a tree of files: digest of the files, or that they are not there."""
UNUSABLE = "environment_missing"
"""In place of the digest: the files are there, and their own tests fail in the sandbox, as where packages are missing."""
ENVIRONMENT_FAULT = "_environment_fault"
"""Label beside it: what the test runner reported."""
TREE_PACKAGES = "_tree_packages"
"""Label beside it: digest over names and versions of the packages that lie in the tree, where some do."""

EDITION = "_edition"
"""Label of a dialog whose questions a user's templates word: the digest of these."""


class Dialog(Frozen):
    """One staged dialogue over one problem."""

    benchmark: str
    dataset_version: str
    dialog_id: str
    problem_id: str
    turns: tuple[Turn, ...] = Field(min_length=1)
    labels: tuple[tuple[str, str], ...] = ()
    row_digest: str
    """Digest of the raw rows it was made of: its problem's row, and its own rows where it has some."""
    problem_digest: str = ""
    """Row digest of its problem. Empty where the dialog has no rows of its own."""
    context_id: str | None = None
    """A context (`contexts`) whose first turns come before the dialog's own."""
    context_turns: int = Field(default=0, ge=0)
    """How many of the context's turns, from its first one."""

    @property
    def digest(self) -> str:
        """Digest of all that will be said: its rows, and where it has some, its context's turns and its tree of files."""
        context = [] if self.context_id is None else [self.context_id, self.context_turns]
        tree = [] if self.tree is None else [TREE, self.tree]
        return (
            content_id([self.row_digest, *context, *tree]) if context or tree else self.row_digest
        )

    @property
    def furnished_digest(self) -> str:
        """Digest of all that is said, and of the packages in its tree. Verdicts depend on these; what is said does not."""
        return (
            content_id([self.digest, TREE_PACKAGES, self.tree_packages])
            if self.tree_packages
            else self.digest
        )

    @property
    def tree_packages(self) -> str:
        """Digest over names and versions of the packages in its tree; empty where it has none."""
        return dict(self.labels).get(TREE_PACKAGES, "")

    @property
    def tree(self) -> str | None:
        """Digest of the files that its programs run in, `MISSING` or `UNUSABLE`; None where they run in none."""
        return dict(self.labels).get(TREE)

    @property
    def is_sourceless(self) -> bool:
        """Whether nothing is asked, since what its programs run in is not there or cannot be used."""
        return self.tree in (MISSING, UNUSABLE)

    @property
    def environment_fault(self) -> str | None:
        """What the test runner reported of its tree's own tests; None where these pass or were not run."""
        return dict(self.labels).get(ENVIRONMENT_FAULT)

    @property
    def edition(self) -> str:
        """Digest of the user's templates that word its questions; empty where none do."""
        return dict(self.labels).get(EDITION, "")

    def without_environment(self, fault: str) -> "Dialog":
        """The dialog whose tree fails its own tests. Its digest differs, so that it is asked once they pass.

        Args:
            fault: what the test runner reported; it is in no digest.
        """
        unusable = self.with_tree(UNUSABLE)
        return unusable.model_copy(
            update={"labels": (*unusable.labels, (ENVIRONMENT_FAULT, fault))}
        )

    def with_tree(self, digest: str, packages: str = "") -> "Dialog":
        """The dialog, its programs run in these files, with these packages among them."""
        others = tuple(
            label
            for label in self.labels
            if label[0] not in (TREE, TREE_PACKAGES, ENVIRONMENT_FAULT)
        )
        beside = ((TREE_PACKAGES, packages),) if packages else ()
        return self.model_copy(update={"labels": (*others, (TREE, digest), *beside)})

    @property
    def scripted_answers(self) -> Mapping[int, str]:
        """Round -> what the assistant says in it without being asked."""
        return {
            t.turn: t.content or ""
            for t in self.turns
            if t.role is Role.ASSISTANT and not t.is_generated
        }

    @property
    def generated_turns(self) -> tuple[int, ...]:
        """Rounds that the model under test answers: the user's, without those that have a scripted answer."""
        scripted = self.scripted_answers
        return tuple(t.turn for t in self.turns if t.role is Role.USER and t.turn not in scripted)

    @property
    def instruction_ids(self) -> tuple[str, ...]:
        """Instruction of each round, in order; `base` first."""
        return tuple(t.instruction_id or "" for t in self.turns if t.role is Role.USER)


class Context(Frozen):
    """A long conversation that was held before many dialogs. It is kept once, and each of these dialogs names it."""

    benchmark: str
    dataset_version: str
    context_id: str
    """Digest of its turns, so that no dialog means another text by it."""
    turns: tuple[Turn, ...] = Field(min_length=1)
    """All of them scripted."""

    @classmethod
    def of(cls, benchmark: str, dataset_version: str, turns: tuple[Turn, ...]) -> Self:
        """The context of these turns."""
        return cls(
            benchmark=benchmark,
            dataset_version=dataset_version,
            context_id=content_id(turns),
            turns=turns,
        )

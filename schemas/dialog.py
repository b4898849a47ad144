"""Staged dialogs: the planned messages, turn by turn (the UniDial-EvalKit schema, typed; UDE section 3)."""

from enum import StrEnum

from pydantic import Field

from schemas.base import Frozen


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class HistoryPolicy(StrEnum):
    """How much of the past the subject sees when it is asked for turn n."""

    ON_POLICY = "on_policy"
    """I_1, A_1, ..., I_n: its own answers (CodeIF-Bench section 3.1)."""
    REFERENCE = "reference"
    """The golden answers of the dialog stand in for its own."""
    LAST_CODE_AND_FEEDBACK = "last_code_and_feedback"
    """Problem, previous code, current feedback; nothing older (ConvCodeWorld)."""
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
    reference: str | None = None
    instruction_id: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    metrics: tuple[MetricSpec, ...] = ()


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

    @property
    def instruction_ids(self) -> tuple[str, ...]:
        """Instruction of each round, in order; `base` first."""
        return tuple(t.instruction_id or "" for t in self.turns if t.role is Role.USER)

"""Verdicts: what tests and judges decided about one turn."""

from enum import StrEnum

from pydantic import Field

from schemas.base import Frozen


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    """The program ran and did not satisfy its tests (an exception, an early exit, out of memory, tampering)."""
    ERROR = "error"
    """There is no answer to run (the episode ended before this turn for a reason of its own)."""
    TIMEOUT = "timeout"
    """The program's own time limit; counts as not passed."""
    INFRA = "infra"
    """Machine or service; never counts against the model."""


class FailureReason(StrEnum):
    """Why a test failed, where that is to be counted and listed."""

    TAMPERING = "tampering"
    """The answer reached for its tests or its judge (frames, memory, /proc, the runner's objects, patched assertions)."""


class TestVerdict(Frozen):
    """One instruction's tests, run on one turn's answer."""

    __test__ = False  # not a pytest class

    run_id: str
    benchmark: str
    model: str
    episode_id: str
    problem_id: str
    sample: int = Field(ge=0)
    turn: int = Field(ge=1)
    instruction_id: str
    outcome: Outcome
    detail: str = ""
    reason: FailureReason | None = None
    duration_s: float | None = Field(default=None, ge=0)
    verdict_id: str | None = None
    """None where nothing ran (no answer)."""
    sandbox: str


class JudgeVerdict(Frozen):
    """One judge's rating of one turn (or of the whole episode: turn 0)."""

    run_id: str
    benchmark: str
    model: str
    episode_id: str
    problem_id: str
    sample: int = Field(ge=0)
    turn: int = Field(ge=0)
    rubric: str
    judge: str
    judgement_id: str
    value: float | None = None
    unscored_reason: str | None = None
    raw: str = ""
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)

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


class CaseVerdict(Frozen):
    """What was decided about one test of a program. Never `infra`: that is raised."""

    name: str
    """`Class.method` of a unittest class, a pytest node id, `test 1` of a list of statements."""
    outcome: Outcome
    detail: str = ""
    """Why it does not pass: its traceback, first and last lines kept; or pytest's word, where that is another than PASSED."""


class ProgramVerdict(Frozen):
    """What a program's tests decided, with what a feedback text is made of. Never `infra`: that is raised."""

    outcome: Outcome
    detail: str = ""
    """The end of the traceback, or why it does not pass; empty for a pass."""
    reason: FailureReason | None = None
    """Why it failed, where that is to be counted: tampering with its tests."""
    duration_s: float = Field(default=0.0, ge=0)
    """On the clock, the sandbox's set-up included."""
    compile_error: str | None = None
    """The traceback that `compile(code, "tmp.py", "exec")` ends with; None where the code compiles."""
    module_error: str | None = None
    """What code or tests' module ended with before there was a first test to run: every case's detail then; None elsewhere."""
    cases: tuple[CaseVerdict, ...] = ()
    """One for each test, in the program's order; none where all tests are one piece of code."""
    verdict_id: str = ""
    """Which program of a run it was; empty where no run asked."""


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

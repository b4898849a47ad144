"""Verdicts: what tests and judges decided about one turn."""

from enum import StrEnum

from pydantic import Field

from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.placing import Placing
from schemas.problem import SuiteKind
from schemas.run import Limits


class Outcome(StrEnum):
    """Ends of a test. Passed, failed, error and timeout count for or against the model; infra and unscored never do."""

    PASSED = "passed"
    FAILED = "failed"
    """The program ran and did not satisfy its tests (an exception, an early exit, out of memory, tampering)."""
    ERROR = "error"
    """There is no answer to run (the episode ended before this turn for a reason of its own)."""
    TIMEOUT = "timeout"
    """The program's own time limit; counts as not passed."""
    INFRA = "infra"
    """Machine or service; never counts against the model."""
    UNSCORED = "unscored"
    """What the program needs is not there (`reason`): no fault, and never counts against the model."""


class FailureReason(StrEnum):
    """Why a test failed, or has no verdict, where that is to be counted and listed."""

    TAMPERING = "tampering"
    """The program wrote into the runner's channel, or the answer has a file that steers its tests."""
    FORGED = "forged"
    """The audit convicted a pass: the tests also pass where they must fail."""
    REFUSED = "refused"
    """The prompt was refused, so there is no answer: it counts as failed."""
    TOOLCHAIN_MISSING = "toolchain_missing"
    """Unscored: the sandbox has no compiler or runtime for the answer's language."""
    SOURCE_MISSING = "source_missing"
    """Unscored: the tree that the tests run in is not there."""
    IMAGE_MISSING = "image_missing"
    """Infra: the Docker image that the tests run in could not be pulled."""
    NETWORK_MISSING = "network_missing"
    """Unscored: its tests ask for public web pages, which no sandbox has."""


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
    """Why it failed, where that is to be counted."""
    duration_s: float = Field(default=0.0, ge=0)
    """On the clock, the sandbox's set-up included; of a run that decided several programs, an equal share."""
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
    n_cases: int | None = Field(default=None, ge=0)
    """Test cases of the program; None where they were not told apart."""
    n_passed: int | None = Field(default=None, ge=0)
    """Test cases that passed."""

    @property
    def plain_outcome(self) -> Outcome:
        """Outcome of the tests themselves, whatever the audit found."""
        return Outcome.PASSED if self.reason is FailureReason.FORGED else self.outcome


class JudgeVerdict(Frozen):
    """One dimension of one judge's rating of one turn (or of the whole episode: turn 0)."""

    run_id: str
    benchmark: str
    model: str
    episode_id: str
    problem_id: str
    sample: int = Field(ge=0)
    turn: int = Field(ge=0)
    rubric: str
    judge: str
    """The judging model's label."""
    judgement_id: str
    """The same for equal prompts to an equal judge. All dimensions of one judgement share it."""
    value: float | None = None
    """The rating; None where it is a word (`label`), or where there is none (`unscored_reason`)."""
    unscored_reason: str | None = None
    raw: str = ""
    """The judge's last answer, as it came."""
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    dimension: str = ""
    """What is rated, where a rubric rates several things."""
    label: str | None = None
    """The rating as a word, where the rubric asks for one of several."""
    answer_json: str | None = None
    """The parsed answer, canonical JSON; None where no answer could be read."""
    rubric_version: str = ""
    n_calls: int = Field(default=0, ge=0)
    """Requests sent for it, repeated ones included."""
    latency_s: float | None = Field(default=None, ge=0)
    """Seconds from request to answer, over all calls."""
    served_model: str | None = None
    is_reused: bool = False
    """Whether another run, or another dialogue of this one, had asked the same before."""
    reasoning_tokens: int | None = Field(default=None, ge=0)
    """Part of `output_tokens`; None where the endpoint did not count them."""


class JudgeDriftAnswer(Frozen):
    """One dimension of a bundled judgement that a night asked a judge anew."""

    night_id: str
    asked_at: str
    """UTC, ISO 8601."""
    judge: str
    """The judging model's label."""
    revision: str
    rubric: str
    """`BENCHMARK.RUBRIC`."""
    rubric_version: str
    case_number: int = Field(ge=0)
    dimension: str
    value: float | None = None
    label: str | None = None
    unscored_reason: str | None = None


def verdict_id(
    *,
    code: str,
    tests: tuple[str, ...],
    runner_version: int,
    environment: str,
    limits: Limits,
    kind: SuiteKind = "statements",
    entry_point: str = "",
    tree: str = "",
    cases: tuple[str, ...] = (),
    placing: Placing | None = None,
    image: str = "",
) -> str:
    """Id of one program's verdict. Equal programs in equal environments are run once.

    Args:
        environment: the sandbox's fingerprint (backend, Python, installed versions or image digest).
        kind: the kind of the tests. `statements` adds nothing to the id, so that verdicts older than the other kinds keep theirs.
        entry_point: see `TestRun`; like the next two it adds nothing where it is empty.
        tree: digest of the files that the tests run in.
        cases: names of the cases that decide, where not all do.
        placing: how code and tests get into these files.
        image: of the program alone; the sandbox's own is in `environment`.
    """
    parts = {
        "code": code,
        "tests": tests,
        "runner_version": runner_version,
        "environment": environment,
        "limits": limits,
    }
    later = {
        "kind": kind if kind != "statements" else "",
        "entry_point": entry_point,
        "tree": tree,
        "cases": cases,
    }
    later |= {"placing": placing, "image": image}
    return content_id(parts | {name: value for name, value in later.items() if value})

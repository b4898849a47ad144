"""Verdicts: decisions of tests and judges about one turn."""

from enum import StrEnum

from pydantic import Field

from schemas.base import EpisodeRow, Frozen
from schemas.content_id import content_id
from schemas.problem import Placing, SuiteKind
from schemas.run import Limits


class Outcome(StrEnum):
    """Outcomes of a test.

    Passed, failed, error and timeout count for or against the model. Infra and unscored never do.
    """

    PASSED = "passed"
    FAILED = "failed"
    """The program ran and did not satisfy its tests (an exception, an early exit, out of memory,
    tampering)."""
    ERROR = "error"
    """There is no answer to run: the episode ended before this turn, and not through a fault."""
    TIMEOUT = "timeout"
    """The program exceeded its own time limit; counts as not passed."""
    INFRA = "infra"
    """A machine or service failed. Never counts against the model."""
    UNSCORED = "unscored"
    """A resource that the program needs is missing (`reason`). It is no fault, and never counts
    against the model."""


class FailureReason(StrEnum):
    """Countable reasons why a test failed, or has no verdict."""

    TAMPERING = "tampering"
    """The program wrote to the runner's channel, or the answer contains a file that controls its
    tests."""
    FORGED = "forged"
    """The audit found the pass forged: the tests also pass where they must fail."""
    REFUSED = "refused"
    """The prompt was refused, so there is no answer. It counts as failed."""
    TOOLCHAIN_MISSING = "toolchain_missing"
    """Unscored: the sandbox has no compiler or runtime for the answer's language."""
    SOURCE_MISSING = "source_missing"
    """Unscored: the tree of files that the tests run in is missing."""
    IMAGE_MISSING = "image_missing"
    """Infra: the Docker image that the tests run in could not be pulled."""
    NETWORK_MISSING = "network_missing"
    """Unscored: the tests need public web pages, which no sandbox has."""


class CaseVerdict(Frozen):
    """Verdict on one test of a program.

    It is never `infra`, which is raised as an error instead.
    """

    name: str
    """`Class.method` of a unittest class, a pytest node id, or `test 1` of a list of statements."""
    outcome: Outcome
    detail: str = ""
    """Reason why the test does not pass: its traceback, first and last lines only, or pytest's
    outcome if that is not PASSED."""


class ProgramVerdict(Frozen):
    """Verdict of a program's tests, with the data for feedback.

    It is never `infra`, which is raised as an error instead.
    """

    outcome: Outcome
    detail: str = ""
    """End of the traceback, or another reason why the program does not pass; empty for a pass."""
    reason: FailureReason | None = None
    """Countable reason of the failure."""
    duration_s: float = Field(default=0.0, ge=0)
    """Wall-clock seconds, including the sandbox's set-up. If a run decided several programs, an
    equal share of its time."""
    compile_error: str | None = None
    """Traceback of `compile(code, "tmp.py", "exec")`; None if the code compiles."""
    module_error: str | None = None
    """Error that ended the code or the tests' module before the first test could run. Every case
    then has it as its detail. None otherwise."""
    cases: tuple[CaseVerdict, ...] = ()
    """Verdicts by test, in the program's order; empty if all tests are one piece of code."""
    verdict_id: str = ""
    """Id of the program within a run; empty if no run requested the verdict."""


class TestVerdict(EpisodeRow):
    """Verdict of one instruction's tests on one turn's answer."""

    __test__ = False  # not a pytest class

    turn: int = Field(ge=1)
    instruction_id: str
    outcome: Outcome
    detail: str = ""
    reason: FailureReason | None = None
    duration_s: float | None = Field(default=None, ge=0)
    verdict_id: str | None = None
    """Id of the verdict; None if nothing ran because there was no answer."""
    sandbox: str
    n_cases: int | None = Field(default=None, ge=0)
    """Number of test cases of the program; None if they were not counted separately."""
    n_passed: int | None = Field(default=None, ge=0)
    """Number of test cases that passed."""

    @property
    def plain_outcome(self) -> Outcome:
        """Outcome of the tests themselves, regardless of the audit."""
        return Outcome.PASSED if self.reason is FailureReason.FORGED else self.outcome


class JudgeVerdict(EpisodeRow):
    """One dimension of one judge's rating of one turn (or of the whole episode: turn 0)."""

    turn: int = Field(ge=0)
    rubric: str
    judge: str
    """Label of the judging model."""
    judgement_id: str
    """Id of the judgement: equal for equal prompts to an equal judge. All dimensions of one
    judgement share it."""
    value: float | None = None
    """Rating as a number; None if it is a word (`label`), or missing (`unscored_reason`)."""
    unscored_reason: str | None = None
    raw: str = ""
    """Last answer of the judge, unchanged."""
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    dimension: str = ""
    """Rated dimension, if the rubric has several."""
    label: str | None = None
    """Rating as a word, if the rubric asks for one of several words."""
    answer_json: str | None = None
    """Parsed answer as canonical JSON; None if no answer could be parsed."""
    rubric_version: str = ""
    n_calls: int = Field(default=0, ge=0)
    """Number of requests sent for the judgement, retries included."""
    latency_s: float | None = Field(default=None, ge=0)
    """Seconds from request to answer, summed over all requests."""
    served_model: str | None = None
    is_reused: bool = False
    """True if another run, or another dialogue of this run, had already requested the same
    judgement."""
    reasoning_tokens: int | None = Field(default=None, ge=0)
    """Number of reasoning tokens, a part of `output_tokens`; None if the endpoint did not count
    them."""


class JudgeDriftAnswer(Frozen):
    """One dimension of a bundled judgement that a night repeated, to measure a judge's drift."""

    night_id: str
    asked_at: str
    """Time of the request: UTC, ISO 8601."""
    judge: str
    """Label of the judging model."""
    revision: str
    rubric: str
    """Rubric as `BENCHMARK.RUBRIC`."""
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
    """Return the id of one program's verdict. Equal programs in equal environments run once.

    Args:
        environment: the sandbox's fingerprint (backend, Python, installed versions or image
            digest).
        kind: form of the tests. `statements` adds nothing to the id, so verdicts older than the
            other kinds keep their ids.
        entry_point: see `TestRun`. An empty `entry_point`, `tree`, `cases`, `placing` or `image`
            adds nothing to the id.
        tree: digest of the files that the tests run in.
        cases: names of the deciding cases, if not all decide.
        placing: positions of code and tests in these files.
        image: image of this program alone. The sandbox's own image is part of `environment`.
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


class Rating(Frozen):
    """One person's rating of one dimension of one turn, or of the whole dialogue."""

    rater: str
    benchmark: str
    """Benchmark of the episode."""
    episode_id: str
    turn: int = Field(ge=0)
    """1-based round; 0 for the whole dialogue."""
    rubric: str
    dimension: str = ""
    value: float | None = None
    """Rating as a number; None if it is a word (`label`)."""
    label: str | None = None
    """Rating as a word; None if it is a number."""

    @property
    def key(self) -> tuple[str, int, str, str]:
        """Rated object. A rater has at most one rating for each key."""
        return self.episode_id, self.turn, self.rubric, self.dimension

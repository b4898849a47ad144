"""Audits of passes: a pass is earned if tests with altered expectations (decoys) fail."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from pydantic import Field

from schemas.base import EpisodeRow, Frozen

AuditMode = Literal["none", "sample", "all"]
"""Passes of a run to audit: none, `AUDIT_SAMPLE` passes drawn by seed (all if there are fewer), or
all."""
AUDIT_SAMPLE = 200
"""Number of passes that the mode `sample` audits in a run."""


class AuditOutcome(StrEnum):
    """Outcomes of an audit."""

    EARNED = "earned"
    """Each decoy failed, as it must for an honest answer."""
    FORGED = "forged"
    """The program also passes tests with an altered expectation, which no correct program can pass.

    Its passed verdict counts as failed.
    """
    SUSPECTED = "suspected"
    """A decoy passed, but nothing shows that the decoy is sound. Counted separately, and changes no
    verdict."""
    NO_DECOY = "no_decoy"
    """The tests contain no check whose expectation can be altered, or no run of the audit
    finished."""


class Audited(Frozen):
    """Result of one program's audit."""

    outcome: AuditOutcome
    decoy: str = ""
    """Text of the altered check that passed. If none passed, the text of a check that failed as it
    must."""
    is_sound: bool = False
    """True if the decoy contradicts the test logically, or the reference code fails it."""
    forged_cases: tuple[str, ...] = ()
    """Names of the program's test cases with forged passes. Empty if the program has no cases."""
    suspected_cases: tuple[str, ...] = ()
    """Names of the program's test cases with suspected passes."""
    detail: str = ""
    """Reason why there is no decoy, or evidence that the decoy is sound."""
    n_decoys: int = Field(default=0, ge=0)
    """Number of altered checks that were run."""
    n_runs: int = Field(default=0, ge=0)
    """Number of sandbox runs that the audit took."""
    duration_s: float = Field(default=0.0, ge=0)
    """Wall-clock seconds of the audit's sandbox runs."""


class ForgeryAudit(EpisodeRow):
    """Audit of one pass: a row of `forgery_audit`."""

    turn: int = Field(ge=1)
    instruction_id: str
    verdict_id: str
    decoy: str = ""
    """Text of the altered check, as in `Audited.decoy`. Empty if the decoy belongs to other
    instructions of the same program."""
    outcome: AuditOutcome
    is_sound: bool = False
    detail: str = ""
    n_decoys: int = Field(default=0, ge=0)
    n_runs: int = Field(default=0, ge=0)
    """Number of sandbox runs of the program's audit. Only the first row of a program has it; the
    others have 0."""
    duration_s: float = Field(default=0.0, ge=0)
    """Wall-clock seconds of the audit's sandbox runs. Only the first row of a program has them; the
    others have 0."""


class AuditCounts(Frozen):
    """Counts of one run's audit."""

    n_audited: int = 0
    """Number of audited passes, without those that have no decoy."""
    n_forged: int = 0
    n_suspected: int = 0
    n_without_decoy: int = 0
    n_runs: int = 0
    """Number of sandbox runs."""
    seconds: float = 0.0
    """Sum of the wall-clock seconds of the sandbox runs."""

    @property
    def share(self) -> float:
        """Share of forged passes among the audited ones (0 to 1); 0 if none was audited."""
        return self.n_forged / self.n_audited if self.n_audited else 0.0


def audit_counts(rows: Iterable[ForgeryAudit]) -> AuditCounts:
    """Count a run's audited passes by outcome."""
    every = tuple(rows)
    by_outcome = Counter(row.outcome for row in every)
    return AuditCounts(
        n_audited=len(every) - by_outcome[AuditOutcome.NO_DECOY],
        n_forged=by_outcome[AuditOutcome.FORGED],
        n_suspected=by_outcome[AuditOutcome.SUSPECTED],
        n_without_decoy=by_outcome[AuditOutcome.NO_DECOY],
        n_runs=sum(row.n_runs for row in every),
        seconds=sum(row.duration_s for row in every),
    )

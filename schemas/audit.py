"""Audits: whether passes were earned. A pass is earned where tests with altered expectations fail (decoys)."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from pydantic import Field

from schemas.base import Frozen

AuditMode = Literal["none", "sample", "all"]
"""Which passes of a run are audited: none, `AUDIT_SAMPLE` drawn by seed (all where there are fewer), or every one."""
AUDIT_SAMPLE = 200
"""Passes that `sample` audits in a run."""


class AuditOutcome(StrEnum):
    """Ends of an audit."""

    EARNED = "earned"
    """Each decoy failed, as it must for an honest answer."""
    FORGED = "forged"
    """A sound decoy passed: the pass counts as failed."""
    SUSPECTED = "suspected"
    """A decoy passed whose soundness nothing shows. Counted apart; changes no verdict."""
    NO_DECOY = "no_decoy"
    """The tests hold no check whose expectation can be altered, or no run of the audit came to its end."""


class Audited(Frozen):
    """Result of one program's audit."""

    outcome: AuditOutcome
    decoy: str = ""
    """Text of the altered check that passed; without one, of a check that failed as it must."""
    is_sound: bool = False
    """Whether the decoy contradicts the test logically, or the reference fails it."""
    forged_cases: tuple[str, ...] = ()
    """Names of the program's cases whose passes were forged; empty where the program has no cases."""
    suspected_cases: tuple[str, ...] = ()
    """Names of the program's cases whose passes are suspected."""
    detail: str = ""
    """Why there is no decoy, or what shows that the decoy is sound."""
    n_decoys: int = Field(default=0, ge=0)
    """Altered checks that were run."""
    n_runs: int = Field(default=0, ge=0)
    """Sandbox runs that the audit took."""
    duration_s: float = Field(default=0.0, ge=0)
    """Seconds on the clock of these runs."""


class ForgeryAudit(Frozen):
    """Audit of one pass: a row of `forgery_audit`."""

    run_id: str
    benchmark: str
    model: str
    episode_id: str
    problem_id: str
    sample: int = Field(ge=0)
    turn: int = Field(ge=1)
    instruction_id: str
    verdict_id: str
    decoy: str = ""
    """See `Audited`; empty where the decoy concerns other instructions of the same program."""
    outcome: AuditOutcome
    is_sound: bool = False
    detail: str = ""
    n_decoys: int = Field(default=0, ge=0)
    n_runs: int = Field(default=0, ge=0)
    """Sandbox runs of the program's audit; 0 in all rows of one program but the first."""
    duration_s: float = Field(default=0.0, ge=0)
    """Seconds of these runs; 0 in all rows of one program but the first."""


class AuditCounts(Frozen):
    """Counts of one run's audit."""

    n_audited: int = 0
    """Audited passes; those without a decoy are not among them."""
    n_forged: int = 0
    n_suspected: int = 0
    n_without_decoy: int = 0
    n_runs: int = 0
    """Sandbox runs."""
    seconds: float = 0.0
    """Seconds of these runs, added up."""

    @property
    def share(self) -> float:
        """Share of forged passes among the audited ones; 0 without any."""
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

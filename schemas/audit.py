"""Audits: whether passes were earned. A pass is earned where tests with altered expectations fail (decoys)."""

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

"""How long Parley's own model servers stood ready, and for whom."""

from pydantic import Field

from schemas.base import Frozen


class ServedHours(Frozen):
    """How long a model server of Parley's stood ready for one role of a run, in one night."""

    night_id: str
    run_id: str
    benchmark: str
    model: str
    role: str
    """subject, simulator or judge."""
    role_model: str
    hours: float | None = Field(default=None, ge=0)
    """From the server's start to the end of its use. Runs and roles that share a server share its time. None where the night was
    killed."""
    gpus: float | None = Field(default=None, ge=0)
    """GPUs that the server holds; None where nobody said."""

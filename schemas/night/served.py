"""Hours that Parley's own model servers were ready, by role."""

from pydantic import Field

from schemas.base import Frozen


class ServedHours(Frozen):
    """Time that a model server of Parley's was ready for one role of a run, in one night."""

    night_id: str
    run_id: str
    benchmark: str
    model: str
    role: str
    """Role of the model: subject, simulator or judge."""
    role_model: str
    hours: float | None = Field(default=None, ge=0)
    """Hours from the server's start to the end of its use. Runs and roles that share a server share
    its time. None if the night was killed."""
    gpus: float | None = Field(default=None, ge=0)
    """Number of GPUs that the server uses; None if unknown."""

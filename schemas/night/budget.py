"""Budget of one invocation, and the amounts that it spent."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from schemas.base import Frozen
from schemas.errors import ConfigError
from schemas.night.caps import CAPS

_UNITS = {"tokens": "tokens", "usd": "USD", "gpu_hours": "GPU hours", "wall_hours": "hours"}


class Budget(Frozen):
    """Caps of one invocation: a night, or one `parley run`. None means no cap.

    No id contains a cap.
    """

    model_config = ConfigDict(populate_by_name=True)

    tokens: int | None = Field(default=None, gt=0)
    """Cap on the tokens of all requests and answers, of every role and of embeddings."""
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Cap on cost in USD: tokens and hours of model servers, at their prices."""
    gpu_hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Cap on GPU hours (GPUs x hours) of the model servers that Parley starts."""
    wall_hours: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        validation_alias=AliasChoices("wall_hours", "hours"),
    )
    """Cap on the hours since the invocation's start. `hours` is an alias."""

    then: Literal["stop", "subsample"] = "stop"
    """Action when the budget is too small. `stop`: send no new request after a cap is reached.
    `subsample`: play the share of the tasks whose estimated tokens and USD fit, chosen before the
    first request."""
    seed: int = 0
    """Seed that chooses the tasks of the subsample."""

    @property
    def caps(self) -> dict[str, float]:
        """Map each cap that is set to its limit."""
        return {name: limit for name in CAPS if (limit := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _has_a_cap(self) -> Self:
        if not self.caps:
            raise ConfigError(f"the budget has no cap. Set one of {', '.join(CAPS)}, such as usd=5")
        if self.then == "subsample" and self.tokens is self.usd is None:
            raise ConfigError(
                "then=subsample needs a cap on tokens or usd: hours cannot be estimated "
                "before the first request"
            )
        return self


class CapSpent(Frozen):
    """State of one cap at the end of an invocation."""

    cap: Literal["tokens", "usd", "gpu_hours", "wall_hours"]
    allowed: float
    spent: float
    """Amount spent. Requests in flight finish after a cap is reached, so it can exceed `allowed` by
    their cost."""
    is_met: bool
    """True if the cap was reached, which stopped the invocation."""
    n_estimated: int = Field(default=0, ge=0)
    """Number of answers whose tokens no endpoint counted. Parley estimates these tokens from the
    answers' length."""

    @property
    def text(self) -> str:
        """Amount spent, with the unit."""
        amount = f"{self.spent:.0f}" if self.cap == "tokens" else f"{self.spent:.6g}"
        guessed = (
            f" ({self.n_estimated} answers without token counts are estimated by length)"
            if self.n_estimated
            else ""
        )
        return f"{amount} {_UNITS[self.cap]} spent{guessed}"


def why_stopped(met: Sequence[CapSpent]) -> str:
    """Describe in one line the caps that were reached."""
    return "; ".join(f"the cap {cap.cap}={cap.allowed:.10g} is reached: {cap.text}" for cap in met)

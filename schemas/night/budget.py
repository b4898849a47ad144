"""What one invocation may spend, and what it has spent of it."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from schemas.base import Frozen
from schemas.errors import ConfigError
from schemas.night.caps import CAPS

_UNITS = {"tokens": "tokens", "usd": "USD", "gpu_hours": "GPU hours", "wall_hours": "hours"}


class Budget(Frozen):
    """Caps of one invocation: a night, or one `parley run`. None is no cap. In no id."""

    model_config = ConfigDict(populate_by_name=True)

    tokens: int | None = Field(default=None, gt=0)
    """Tokens of all requests and answers, of every role and of embeddings."""
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Tokens by their prices, and the hours of model servers by theirs."""
    gpu_hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """GPUs x hours of the model servers that Parley starts."""
    wall_hours: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        validation_alias=AliasChoices("wall_hours", "hours"),
    )
    """Hours from the invocation's start; `hours` is the same."""

    then: Literal["stop", "subsample"] = "stop"
    """`subsample`: play the share of the tasks whose estimated tokens and dollars fit, chosen before the first request."""
    seed: int = 0
    """Chooses the tasks of the subsample."""

    @property
    def caps(self) -> dict[str, float]:
        """Name -> limit of each cap that is set."""
        return {name: limit for name in CAPS if (limit := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _has_a_cap(self) -> Self:
        if not self.caps:
            raise ConfigError(
                f"a budget without a cap: give one of {', '.join(CAPS)}, such as usd=5"
            )
        if self.then == "subsample" and self.tokens is self.usd is None:
            raise ConfigError(
                "then=subsample needs a cap on tokens or usd: hours cannot be estimated before the first request"
            )
        return self


class CapSpent(Frozen):
    """One cap of an invocation at its end."""

    cap: Literal["tokens", "usd", "gpu_hours", "wall_hours"]
    allowed: float
    spent: float
    """What was in flight when the cap was met ended, so that it may be a little more than `allowed`."""
    is_met: bool
    """The invocation stopped at it."""
    n_estimated: int = Field(default=0, ge=0)
    """Answers whose tokens no endpoint counted, and which count by their length."""

    @property
    def text(self) -> str:
        """What was spent of it, with the unit."""
        amount = f"{self.spent:.0f}" if self.cap == "tokens" else f"{self.spent:.6g}"
        guessed = (
            f" ({self.n_estimated} answers that nobody counted count by length)"
            if self.n_estimated
            else ""
        )
        return f"{amount} {_UNITS[self.cap]} spent{guessed}"


def why_stopped(met: Sequence[CapSpent]) -> str:
    """The caps that were met, in one line."""
    return "; ".join(f"the cap {one.cap}={one.allowed:.10g} is met: {one.text}" for one in met)

"""Cost of a run: tokens at the prices of their models, and hours of model servers at their prices.

The SQL macro `tokens_usd` has the same definition for the warehouse's tables.
"""

from collections.abc import Iterable
from dataclasses import dataclass

Price = tuple[float, float]
"""Price in USD per million input tokens and per million output tokens."""


@dataclass(frozen=True)
class RoleCost:
    """Tokens and server hours of one role's model, with their prices.

    Attributes:
        price: prices of tokens; None if not configured.
        usd_per_hour: price of the model's server; None if not configured.
        n_unknown: number of answers whose tokens no endpoint counted.
        hours: hours of the server; None if unknown, and for a model that Parley does not serve.
    """

    price: Price | None
    usd_per_hour: float | None = None
    input_tokens: float = 0
    output_tokens: float = 0
    n_unknown: int = 0
    hours: float | None = None

    @property
    def is_by_the_hour(self) -> bool:
        """True if the model costs only by the hour."""
        return self.price is None and self.usd_per_hour is not None

    @property
    def usd(self) -> float | None:
        """Cost of the tokens; None if their price or number is unknown."""
        if self.price is None or self.n_unknown:
            return None
        return tokens_usd(self.price, self.input_tokens, self.output_tokens)

    @property
    def usd_hourly(self) -> float | None:
        """Cost of the server's hours; None if their price or number is unknown."""
        return (
            None
            if self.usd_per_hour is None or self.hours is None
            else self.usd_per_hour * self.hours
        )


def tokens_usd(price: Price, input_tokens: float, output_tokens: float) -> float:
    """Return the cost of tokens in USD."""
    return (input_tokens * price[0] + output_tokens * price[1]) / 1e6


def sum_usd(roles: Iterable[RoleCost]) -> float | None:
    """Sum the costs of tokens. A model that costs only by the hour adds none.

    Returns:
        USD; None if a cost is unknown, or if all models cost only by the hour; 0.0 without roles.
    """
    roles = tuple(roles)
    costs = [role.usd for role in roles if not role.is_by_the_hour]
    return (
        None
        if None in costs or (roles and not costs)
        else sum(cost for cost in costs if cost is not None)
    )


def sum_usd_hourly(roles: Iterable[RoleCost]) -> float | None:
    """Sum the costs of server hours.

    Returns:
        USD; None if a cost is unknown, or if no server has a price.
    """
    costs = [role.usd_hourly for role in roles if role.usd_per_hour is not None]
    return None if None in costs or not costs else sum(cost for cost in costs if cost is not None)

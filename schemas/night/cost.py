"""Defines what a run costs: tokens at the prices of their models, and hours of model servers at the prices of these.

The SQL macro `tokens_usd` has the same definition for the warehouse's tables.
"""

from collections.abc import Iterable
from dataclasses import dataclass

Price = tuple[float, float]
"""USD per million input and output tokens."""


@dataclass(frozen=True)
class RoleCost:
    """Tokens and server hours of one role's model, with their prices.

    Attributes:
        price: None where nobody stated it.
        usd_per_hour: price of the model's server; None where nobody stated it.
        n_unknown: answers whose tokens no endpoint counted.
        hours: None where they are unknown, and for a model that Parley does not serve.
    """

    price: Price | None
    usd_per_hour: float | None = None
    input_tokens: float = 0
    output_tokens: float = 0
    n_unknown: int = 0
    hours: float | None = None

    @property
    def is_by_the_hour(self) -> bool:
        """Whether the model's hours are all that it costs."""
        return self.price is None and self.usd_per_hour is not None

    @property
    def usd(self) -> float | None:
        """Cost of the tokens; None where their price or number is unknown."""
        if self.price is None or self.n_unknown:
            return None
        return tokens_usd(self.price, self.input_tokens, self.output_tokens)

    @property
    def usd_hourly(self) -> float | None:
        """Cost of the server's hours; None where their price or number is unknown."""
        return (
            None
            if self.usd_per_hour is None or self.hours is None
            else self.usd_per_hour * self.hours
        )


def tokens_usd(price: Price, input_tokens: float, output_tokens: float) -> float:
    """Return the cost of tokens in USD."""
    return (input_tokens * price[0] + output_tokens * price[1]) / 1e6


def sum_usd(roles: Iterable[RoleCost]) -> float | None:
    """Add up the costs of tokens. A model that costs by the hour alone adds none.

    Returns:
        None where one of them is unknown, and where all models cost by the hour alone; 0.0 without roles.
    """
    roles = tuple(roles)
    costs = [role.usd for role in roles if not role.is_by_the_hour]
    return (
        None
        if None in costs or (roles and not costs)
        else sum(cost for cost in costs if cost is not None)
    )


def sum_usd_hourly(roles: Iterable[RoleCost]) -> float | None:
    """Add up the costs of server hours.

    Returns:
        None where one of them is unknown, and where no server has a price.
    """
    costs = [role.usd_hourly for role in roles if role.usd_per_hour is not None]
    return None if None in costs or not costs else sum(cost for cost in costs if cost is not None)

"""A run's cost: tokens by their prices and hours by theirs; what is unknown is None and never 0."""

from itertools import product

import duckdb
import pytest

from schemas.night.cost import RoleCost, sum_usd, sum_usd_hourly
from warehouse.publication.migrate import create_tables

TOKENS = RoleCost((2.0, 10.0), None, 100, 10)
UNCOUNTED = RoleCost((2.0, 10.0), None, 100, 10, n_unknown=1)
SERVED = RoleCost(None, 36.0, 100, 10, hours=0.5)
KILLED = RoleCost(None, 36.0, 100, 10)
BOTH = RoleCost((1.0, 1.0), 2.0, 100, 10, hours=3.0)
UNPRICED = RoleCost(None, None, 100, 10)


@pytest.mark.parametrize(
    ("roles", "usd", "usd_hourly"),
    [
        ((), 0.0, None),
        ((TOKENS,), 0.0003, None),
        ((TOKENS, TOKENS), 0.0006, None),
        ((UNCOUNTED,), None, None),
        ((TOKENS, UNPRICED), None, None),
        ((SERVED,), None, 18.0),
        ((TOKENS, SERVED), 0.0003, 18.0),
        ((SERVED, KILLED), None, None),
        ((BOTH, SERVED), 0.00011, 24.0),
        ((UNPRICED, SERVED), None, 18.0),
    ],
)
def test_sums(roles: tuple[RoleCost, ...], usd: float | None, usd_hourly: float | None) -> None:
    for found, wanted in ((sum_usd(roles), usd), (sum_usd_hourly(roles), usd_hourly)):
        assert found == (None if wanted is None else pytest.approx(wanted))


def test_sql_and_python_have_one_definition() -> None:
    connection = duckdb.connect()
    create_tables(connection)
    for told, said, price_in, price_out in product((None, 0, 7), (0, 13), (None, 2.5), (10.0,)):
        price = None if price_in is None else (price_in, price_out)
        role = RoleCost(price, None, told or 0, said, n_unknown=int(told is None))
        values = (told, said, price_in, price_out)
        [(found,)] = connection.execute(
            "select tokens_usd(?::bigint, ?::bigint, ?::double, ?::double)", values
        ).fetchall()
        assert found == (None if role.usd is None else pytest.approx(role.usd)), values

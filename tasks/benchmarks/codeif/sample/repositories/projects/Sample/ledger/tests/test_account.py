"""Transfers."""

import pytest

from ledger.account import Account, NotCovered


@pytest.fixture
def rich():
    """An account with ten."""
    return Account("rich", 1000)


def test_transfer_moves_money(rich):
    """What one loses the other gets."""
    poor = Account("poor")
    assert rich.transfer(poor, 400) == 600
    assert (rich.balance, poor.balance) == (600, 400)


def test_transfer_needs_cover(rich):
    """Nobody pays more than there is."""
    with pytest.raises(NotCovered):
        rich.transfer(Account("poor"), 1001)

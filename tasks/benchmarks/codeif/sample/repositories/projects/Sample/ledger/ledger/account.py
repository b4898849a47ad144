"""Accounts that hold money."""


class NotCovered(Exception):
    """An account has less than it is to pay."""


class Account:
    """A named account with a balance in cents."""

    def __init__(self, name: str, balance: int = 0) -> None:
        self.name = name
        self.balance = balance

    def deposit(self, cents: int) -> None:
        """Add money."""
        if cents < 0:
            raise ValueError("a deposit is not negative")
        self.balance += cents

    def withdraw(self, cents: int) -> None:
        """Take money away."""
        if cents > self.balance:
            raise NotCovered(f"{self.name} has {self.balance}")
        self.balance -= cents

    def transfer(self, other: "Account", cents: int, fee: int = 0) -> int:
        """Move money to another account and return what is left."""
        if not isinstance(other, Account):
            raise TypeError("the other side is no account")
        if cents < 0:
            raise ValueError("a transfer is not negative")
        self.withdraw(cents + fee)
        other.deposit(cents)
        return self.balance

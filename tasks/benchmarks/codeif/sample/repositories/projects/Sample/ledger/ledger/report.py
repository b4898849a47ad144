"""Lines of text about accounts."""

from ledger.account import Account
from ledger.money import format_cents


class Report:
    """What several accounts hold."""

    def __init__(self, accounts: list[Account], width: int = 12) -> None:
        self.accounts = accounts
        self.width = width

    def total(self) -> int:
        """Cents in all accounts."""
        return sum(account.balance for account in self.accounts)

    def line(self, name: str, sign: str = "") -> str:
        """Name and balance of the account with that name."""
        if not isinstance(name, str):
            raise TypeError("a name is a text")
        for account in self.accounts:
            if account.name == name:
                return f"{name:<{self.width}}{format_cents(account.balance)}{sign}"
        raise KeyError(name)

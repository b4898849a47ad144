"""Lines."""

from ledger.account import Account
from ledger.report import Report


class TestReport:
    """A report."""

    def setup_method(self):
        """Two accounts."""
        self.report = Report([Account("cash", 1250), Account("bank", -5)])

    def test_line(self):
        """Name and amount."""
        assert self.report.line("cash") == "cash        12.50"
        assert self.report.line("bank").endswith("-0.05")

    def test_total(self):
        """Their sum."""
        assert self.report.total() == 1245

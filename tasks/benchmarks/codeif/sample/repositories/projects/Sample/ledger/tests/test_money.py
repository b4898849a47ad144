"""Amounts."""

import unittest

from ledger import money


class MoneyTests(unittest.TestCase):
    """Both ways."""

    def test_parse_cents(self):
        """With and without a point."""
        self.assertEqual(money.parse_cents("12.50"), 1250)
        self.assertEqual(money.parse_cents("-3"), -300)

    def test_format_cents(self):
        """Two decimals."""
        self.assertEqual(money.format_cents(-1205), "-12.05")

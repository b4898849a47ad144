"""Amounts of money as text and as whole cents."""

import re

_AMOUNT = re.compile(r"(-?)(\d+)(?:\.(\d{1,2}))?")


def parse_cents(text: str, currency: str = "") -> int:
    """The amount that a text names, in cents."""
    if not isinstance(text, str):
        raise TypeError("an amount is a text")
    found = _AMOUNT.fullmatch(text.strip().removesuffix(currency).strip())
    if found is None:
        raise ValueError(f"not an amount: {text!r}")
    sign, whole, part = found.groups()
    cents = int(whole) * 100 + int((part or "0").ljust(2, "0"))
    return -cents if sign else cents


def format_cents(cents: int) -> str:
    """Cents as an amount with two decimals."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"

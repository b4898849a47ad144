"""The time as tables hold it."""

from datetime import UTC, datetime


def utc_now() -> str:
    """UTC, ISO 8601, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")

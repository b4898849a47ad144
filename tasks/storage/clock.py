"""The present time, in the form that tables hold."""

from datetime import UTC, datetime


def utc_now() -> str:
    """UTC, ISO 8601, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")

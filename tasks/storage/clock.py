"""Present time in the form that tables contain."""

from datetime import UTC, datetime


def utc_now() -> str:
    """Return the present time: UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")

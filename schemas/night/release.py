"""Releases: a person's decision to publish a withheld run."""

from collections.abc import Iterable

from pydantic import Field

from schemas.base import RunRow
from schemas.content_id import content_id

_RESULTS = tuple(
    f"seal.{table}"
    for table in (
        "episodes",
        "run_episodes",
        "test_verdicts",
        "forgery_audit",
        "judge_verdicts",
        "scores",
    )
)


class Release(RunRow):
    """Release of a run that its checks withhold.

    Other results of the same run need another release.
    """

    because: str
    withheld_reason: str
    """Reason why the run was withheld at the time of its release."""
    released_at: str
    """Time of the release: UTC, ISO 8601."""
    results_digest: str
    """Digest of the results that were released."""
    released_by: str = ""
    """Name of the user's account; empty in releases of earlier versions."""
    number: int = Field(default=1, ge=1)
    """1-based number of the release among those of its run. The latest one for the run's present
    results publishes it."""


def results_digest(state: Iterable[tuple[str, str]], finished_at: str) -> str:
    """Return the digest of a run's results: equal for equal files of episodes, verdicts and scores.

    Args:
        state: state of the run's record, which contains the seals of these files.
        finished_at: stands for the results of a record without seals.
    """
    sealed = sorted(pair for pair in state if pair[0] in _RESULTS)
    return content_id(sealed or finished_at)

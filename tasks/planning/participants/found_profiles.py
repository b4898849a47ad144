"""What a run's workers found out about its endpoints, as the run's record keeps it."""

from collections.abc import Iterable, Mapping

from schemas.content_id import canonical_json
from schemas.endpoint_profile import EndpointProfile
from schemas.lake.records import RunRecord


def join_profiles(
    known: dict[str, EndpointProfile], found: Iterable[tuple[str, EndpointProfile]]
) -> None:
    """Add what a shard's process knows of the endpoints to `known` (role -> profile)."""
    for role, profile in found:
        known[role] = known[role].joined(profile) if role in known else profile


def kept_profiles(
    before: RunRecord | None, found: Mapping[str, EndpointProfile]
) -> tuple[tuple[str, str], ...]:
    """Return (role, profile as JSON), sorted by role. A role that was not asked this time keeps what an earlier record has."""
    earlier = dict(before.profiles) if before else {}
    return tuple(
        sorted(
            {
                **earlier,
                **{role: canonical_json(profile) for role, profile in found.items()},
            }.items()
        )
    )

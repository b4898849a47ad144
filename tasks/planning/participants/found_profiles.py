"""Profiles of endpoints that a run's workers learned, as the run's record stores them."""

from collections.abc import Iterable, Mapping

from schemas.content_id import canonical_json
from schemas.endpoint_profile import EndpointProfile
from schemas.lake.records import RunRecord


def join_profiles(
    profiles: dict[str, EndpointProfile], learned: Iterable[tuple[str, EndpointProfile]]
) -> None:
    """Merge the profiles that a shard's process learned into `profiles` (role -> profile)."""
    for role, profile in learned:
        profiles[role] = profiles[role].joined(profile) if role in profiles else profile


def recorded_profiles(
    before: RunRecord | None, profiles: Mapping[str, EndpointProfile]
) -> tuple[tuple[str, str], ...]:
    """Return (role, profile as JSON), sorted by role.

    A role without requests in this invocation keeps the profile of the earlier record.
    """
    earlier = dict(before.profiles) if before else {}
    return tuple(
        sorted(
            {
                **earlier,
                **{role: canonical_json(profile) for role, profile in profiles.items()},
            }.items()
        )
    )

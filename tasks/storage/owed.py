"""Which episodes a run wants, which of them are finished, and which are owed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from schemas.dialog import Dialog
from schemas.episode import Episode, StopReason
from schemas.rows import from_arrow
from schemas.run import RunSpec
from tasks.storage.journal import Unfinished
from tasks.storage.parquet_store import Lake


@dataclass(frozen=True, slots=True)
class WantedEpisode:
    """One sample of one dialog, by its id."""

    episode_id: str
    dialog: Dialog
    sample: int
    seed: int


def wanted_episodes(spec: RunSpec, dialogs: Iterable[Dialog]) -> tuple[WantedEpisode, ...]:
    """All episodes of a run, sample by sample within each dialog."""
    return tuple(
        WantedEpisode(spec.episode_id(dialog.row_digest, sample), dialog, sample, spec.seed + sample)
        for dialog in dialogs
        for sample in range(spec.samples)
    )


def finished_ids(lake: Lake, benchmark: str, model: str) -> set[str]:
    """Ids of all episodes of a model that need not be run again, whichever run paid for them."""
    rows = lake.read_arrow("episodes", lake.parts("episodes", benchmark=benchmark, model=model), ["episode_id", "stop_reason"])
    final = rows.filter(pc.field("stop_reason") != StopReason.INFRA.value)
    return set(final["episode_id"].to_pylist())


def read_episodes(lake: Lake, benchmark: str, model: str, wanted: Iterable[str]) -> dict[str, Episode]:
    """The wanted episodes that exist, by id: of several attempts the final one, else the latest."""
    ids = set(wanted)
    best: dict[str, Episode] = {}
    for part in lake.parts("episodes", benchmark=benchmark, model=model):
        present = lake.read_arrow("episodes", [part], ["episode_id"])["episode_id"].to_pylist()
        if ids.isdisjoint(present):
            continue
        for episode in from_arrow(lake.read_arrow("episodes", [part]), Episode):
            if episode.episode_id in ids:
                known = best.get(episode.episode_id)
                if known is None or (episode.is_final, episode.attempt) > (known.is_final, known.attempt):
                    best[episode.episode_id] = episode
    return best


def unfinished(
    owed: Sequence[WantedEpisode], journal: Mapping[str, Unfinished], stored: Mapping[str, Episode]
) -> dict[str, Unfinished]:
    """What is already known of each owed episode: the longer of journal and stored (infra) attempt, and the highest attempt."""
    known: dict[str, Unfinished] = {}
    for wanted in owed:
        candidates = [journal[wanted.episode_id]] if wanted.episode_id in journal else []
        if wanted.episode_id in stored:
            episode = stored[wanted.episode_id]
            candidates.append(Unfinished(episode.attempt, episode.steps))
        if candidates:
            longest = max(candidates, key=lambda c: (c.attempt, len(c.steps)))
            known[wanted.episode_id] = Unfinished(max(c.attempt for c in candidates), longest.steps)
    return known

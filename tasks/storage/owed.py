"""Which episodes a run wants, which of them are finished, and which are owed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
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


def episode_rows(lake: Lake, benchmark: str, model: str, wanted: Iterable[str]) -> pa.Table:
    """The wanted episodes that exist, as they lie in the lake, a row each: of several attempts the final one, else the latest."""
    parts = lake.parts("episodes", benchmark=benchmark, model=model)
    ids = set(wanted)
    best: dict[str, tuple[bool, int, int]] = {}
    pieces, offset = [], 0
    for part in parts:
        head = lake.read_arrow("episodes", [part], ["episode_id", "stop_reason", "attempt"]).to_pylist()
        if ids.isdisjoint(row["episode_id"] for row in head):
            continue
        for at, row in enumerate(head, offset):
            rank = (row["stop_reason"] != StopReason.INFRA.value, row["attempt"], -at)
            if row["episode_id"] in ids and rank > best.get(row["episode_id"], (False, 0, 0)):
                best[row["episode_id"]] = rank
        pieces.append(part)
        offset += len(head)
    return lake.read_arrow("episodes", pieces).take(pa.array(sorted(-rank[2] for rank in best.values()), pa.int64()))


def read_episodes(lake: Lake, benchmark: str, model: str, wanted: Iterable[str]) -> dict[str, Episode]:
    """The wanted episodes that exist, by id."""
    return {e.episode_id: e for e in from_arrow(episode_rows(lake, benchmark, model, wanted), Episode)}


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

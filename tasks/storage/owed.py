"""Tells which episodes a run wants, which of them are finished, and which are owed."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from schemas.dialog import Dialog
from schemas.episode import Episode, StopReason
from schemas.rows import from_arrow
from schemas.run import RunSpec
from tasks.storage.journal import Unfinished
from tasks.storage.parquet_store import Lake, listing_again


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


def finished_ids(lake: Lake, benchmark: str, model: str, among: Sequence[str]) -> set[str]:
    """Ids of a model's episodes, among the given ones, that are finished, whichever run paid for them."""
    rows = listing_again(
        lambda: lake.read_arrow(
            "episodes", lake.parts("episodes", benchmark=benchmark, model=model), ["episode_id", "stop_reason"]
        )
    )
    is_asked = pc.field("episode_id").isin(pa.array(among, pa.string()))
    final = rows.filter((pc.field("stop_reason") != StopReason.INFRA.value) & is_asked)
    return set(final["episode_id"].to_pylist())


def episode_rows(lake: Lake, benchmark: str, model: str, wanted: Iterable[str]) -> pa.Table:
    """The wanted episodes that exist, as they lie in the lake, a row each.

    A final attempt counts before others, then the highest attempt, then the one that finished first. So a worker that comes back
    late changes nothing. The warehouse's `chosen_attempts` chooses alike.
    """
    ids = pa.array(sorted(set(wanted)), pa.string())
    return listing_again(lambda: _chosen_rows(lake, lake.parts("episodes", benchmark=benchmark, model=model), ids))


def _chosen_rows(lake: Lake, parts: Sequence[Path], ids: pa.Array) -> pa.Table:
    heads = [lake.read_arrow("episodes", [part], ["episode_id", "stop_reason", "attempt", "finished_at"]) for part in parts]
    chosen: dict[int, list[int]] = {}
    for number, at in _chosen_places(heads, ids):
        chosen.setdefault(number, []).append(at)
    pieces = [lake.read_arrow("episodes", [parts[number]]).take(pa.array(places)) for number, places in chosen.items()]
    return pa.concat_tables(pieces) if pieces else lake.read_arrow("episodes", [])


def _chosen_places(heads: Sequence[pa.Table], ids: pa.Array) -> list[tuple[int, int]]:
    """(part, row) of each wanted episode, in their order."""
    if not heads:
        return []
    starts = list(accumulate((head.num_rows for head in heads), initial=0))
    everything = pa.concat_tables(heads)
    # pyarrow.compute makes its functions when it is imported, so that no type checker knows them.
    found = pc.indices_nonzero(pc.is_in(everything["episode_id"], value_set=ids))  # pyright: ignore[reportAttributeAccessIssue]
    best: dict[str, tuple[bool, int, str, int]] = {}
    for at, row in zip(found.to_pylist(), everything.take(found).to_pylist(), strict=True):
        rank = (row["stop_reason"] == StopReason.INFRA.value, -row["attempt"], row["finished_at"], at)
        best[row["episode_id"]] = min(rank, best.get(row["episode_id"], rank))
    places = sorted(at for *_, at in best.values())
    return [(number, at - starts[number]) for at in places for number in (bisect_right(starts, at) - 1,)]


def read_episodes(lake: Lake, benchmark: str, model: str, wanted: Iterable[str]) -> dict[str, Episode]:
    """The wanted episodes that exist, by id."""
    return {e.episode_id: e for e in from_arrow(episode_rows(lake, benchmark, model, wanted), Episode)}


def unfinished(
    owed: Sequence[WantedEpisode], journal: Mapping[str, Unfinished], stored: Mapping[str, Episode]
) -> dict[str, Unfinished]:
    """The kept part of each owed episode: the longer of journal and stored (infra) attempt, and the highest attempt number.

    Answers of an ended attempt are left out: they may be the reason why it ended as infra.
    """
    known: dict[str, Unfinished] = {}
    for wanted in owed:
        candidates = [journal[wanted.episode_id]] if wanted.episode_id in journal else []
        if wanted.episode_id in stored:
            episode = stored[wanted.episode_id]
            candidates.append(Unfinished(episode.attempt, episode.steps))
        if candidates:
            longest = max(candidates, key=lambda c: (c.attempt, len(c.steps)))
            ended = stored[wanted.episode_id].attempt if wanted.episode_id in stored else 0
            answers = tuple(answer for c in candidates for answer in c.answers if answer[0] > ended)
            known[wanted.episode_id] = Unfinished(max(c.attempt for c in candidates), longest.steps, answers)
    return known

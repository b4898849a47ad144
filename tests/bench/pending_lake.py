"""A lake of very many finished episodes of one model, and what finding the pending ones among them
takes.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas.lake.tables import TABLES
from tasks.storage.parquet_store import Lake
from tasks.storage.run_rows import EpisodeFiles
from tests.bench.warehouse_lake import BENCHMARK, random_ids, write_bulk

MODEL = "openai:model"
NIGHT = 2_664
"""Dialogues of a night."""


@dataclass(frozen=True)
class PendingLake:
    """Runs of `NIGHT` episodes each, a part a run, as finished runs leave them."""

    home: Path

    def write(self, n_episodes: int) -> None:
        """Write them; episodes without messages, which nobody reads here."""
        lake = Lake(self.home / "lake")
        draw = np.random.default_rng(0)
        kind = TABLES["episodes"].schema.field("steps").type
        for first in range(0, n_episodes, NIGHT):
            n = min(NIGHT, n_episodes - first)
            names = [f"function/{number}" for number in range(n)]
            keys = {"benchmark": BENCHMARK, "model": MODEL, "run_id": f"{first:032x}"}
            columns = {
                "episode_id": random_ids(draw, n),
                "setting": "static",
                "dataset_version": "bench",
                "problem_id": names,
                "dialog_id": names,
                "row_digest": random_ids(draw, n),
                "sample": 0,
                "seed": 0,
                "attempt": 1,
                "stop_reason": "finished",
                "error": None,
                "started_at": "2026-01-01T00:00:00.000+00:00",
                "finished_at": "2026-01-01T00:01:00.000+00:00",
                "steps": pa.ListArray.from_arrays(
                    pa.array(np.zeros(n + 1, np.int32)), pa.array([], kind.value_type), type=kind
                ),
            }
            write_bulk(lake, "episodes", keys | columns, **keys)


def pending_seconds(home: Path) -> dict[str, float]:
    """Seconds to find which of a night's episodes, and which of all, are finished; half a night and
    all but one are.
    """
    lake = Lake(home / "lake")
    ids = lake.read_arrow("episodes", lake.parts("episodes"), ["episode_id"])[
        "episode_id"
    ].to_pylist()
    unknown = [f"{number:032x}" for number in range(NIGHT // 2)]
    wanted = {
        "a_night": [*ids[:: max(1, len(ids) // (NIGHT // 2))][: NIGHT // 2], *unknown],
        "everything": [*ids[1:], *unknown[:1]],
    }
    taken: dict[str, float] = {}
    for name, asked in wanted.items():
        begun = time.perf_counter()
        found = EpisodeFiles(lake, BENCHMARK, MODEL).finished(asked)
        taken[name] = time.perf_counter() - begun
        assert len(found) == len(set(asked) - set(unknown))
    return taken

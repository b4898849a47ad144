"""How many episodes a shard of dialogues holds."""

from types import SimpleNamespace
from typing import Any

import pytest

from tasks.converse import _shard_size


@pytest.mark.parametrize(
    ("n", "rounds", "n_workers", "size"),
    [
        (2000, 6, 2, 6),
        (5276, 1.5, 2, 24),
        (5276, 1.5, 8, 24),
        (5276, 0, 2, 109),
        (200, 1, 2, 6),
        (400, 1, 2, 8),
        (2000, 20, 2, 6),
        (1, 1, 2, 6),
    ],
)
def test_short_dialogues_share_a_shard_as_long_as_each_worker_has_many(n: int, rounds: float, n_workers: int, size: int) -> None:
    """128 in flight in a worker: six episodes of six rounds in each of 24 shards; 36 answers of many shorter dialogues."""
    counts = [int(rounds * (i + 1)) - int(rounds * i) for i in range(n)]
    plan: Any = SimpleNamespace(due=lambda dialog: SimpleNamespace(rounds=dialog))
    context: Any = SimpleNamespace(concurrency=128)
    owed: Any = [SimpleNamespace(dialog=count) for count in counts]
    assert _shard_size(plan, context, owed, n_workers) == size

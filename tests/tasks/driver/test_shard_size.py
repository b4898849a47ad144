"""How many dialogues, or judgements, a shard holds."""

import pytest

from tasks.driver.fan_out import shard_size


@pytest.mark.parametrize(
    ("n", "answers", "n_workers", "size"),
    [
        (2000, 12_000, 2, 16),
        (5276, 7914, 2, 64),
        (5276, 7914, 8, 64),
        (5276, 0, 2, 329),
        (200, 200, 2, 16),
        (400, 400, 2, 25),
        (2000, 40_000, 2, 16),
        (1, 1, 2, 16),
        (12_000, 12_000, 2, 96),
    ],
)
def test_items_with_few_answers_share_a_shard_as_long_as_each_worker_has_many(
    n: int, answers: int, n_workers: int, size: int
) -> None:
    """128 under way in a worker: 16 items of six answers in each of eight shards; 96 answers of
    many shorter items.
    """
    assert shard_size(128, n, answers, n_workers) == size

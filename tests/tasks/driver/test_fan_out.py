"""Dealing episodes to workers."""

import time

import dask.config
import pytest
from distributed import Client, LocalCluster, get_worker

from schemas.errors import ServerUnavailable
from tasks.driver.fan_out import dealt_shards, fan_out, living_workers


@pytest.mark.parametrize(
    ("n_items", "size", "n_workers"), [(1024, 6, 2), (7, 3, 3), (2, 5, 4), (1, 1, 1), (100, 7, 3)]
)
def test_each_worker_is_dealt_as_many_and_none_is_lost(
    n_items: int, size: int, n_workers: int
) -> None:
    shards = dealt_shards(range(n_items), size, n_workers)
    hands = [
        [item for shard in shards[worker::n_workers] for item in shard]
        for worker in range(n_workers)
    ]
    assert sorted(item for hand in hands for item in hand) == list(range(n_items))
    assert max(map(len, hands)) - min(map(len, hands)) <= 1
    assert max(map(len, shards)) <= size
    assert all(hand == sorted(hand) for hand in hands), "what comes first is begun first"


def place_of(shard: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    return shard, get_worker().address


def test_shards_that_were_dealt_go_to_their_worker() -> None:
    with (
        dask.config.set(
            {"distributed.scheduler.work-stealing": False}
        ),  # an idle worker takes from one that lags
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        shards = dealt_shards(range(24), 2, 2)
        results, lost = fan_out(client, place_of, shards, in_turn=True)
        workers = living_workers(client)
    assert lost == []
    assert dict(results) == {shard: workers[n % 2] for n, shard in enumerate(shards)}


def test_workers_are_counted_while_the_client_refreshes_what_it_knows() -> None:
    """The refresh leaves the workers out; a night that counted them then failed for want of any."""
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "2ms"}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        assert {len(living_workers(client)) for _ in range(300)} == {2}


def test_a_worker_that_is_being_replaced_is_waited_for() -> None:
    with (
        LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        begun = time.monotonic()
        with pytest.raises(ServerUnavailable, match=r"no worker for 0\.2 s"):
            living_workers(client, limit_s=0.2)
        assert time.monotonic() - begun >= 0.2
        cluster.scale(1)
        assert len(living_workers(client)) == 1


def doubled(item: int) -> int:
    return 2 * item


def test_once_there_is_enough_no_shard_is_begun_and_those_under_way_count() -> None:
    came: list[int] = []
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        results, lost = fan_out(
            client, doubled, range(20), came.append, at_once=2, is_enough=lambda: len(came) >= 3
        )
        none, _ = fan_out(client, doubled, range(20), is_enough=lambda: True)
    assert (lost, none) == ([], [])
    assert sorted(results) == sorted(came) == [2 * item for item in range(len(came))], (
        "the first ones, in their order"
    )
    assert 3 <= len(came) <= 5


def test_shards_wait_while_those_under_way_are_expected_to_suffice() -> None:
    came: list[int] = []
    begun: list[int] = []
    n_begun_elsewhere: list[int] = []
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        results, _ = fan_out(
            client,
            doubled,
            range(20),
            came.append,
            at_once=4,
            on_begun=begun.append,
            on_all_begun=lambda: n_begun_elsewhere.append(len(begun)),
            is_probably_enough=lambda: len(begun) == 4,
        )
    assert sorted(results) == [2 * item for item in range(20)], "the expectation was wrong"
    assert begun == list(range(20))
    assert n_begun_elsewhere == [4], "another run may begin beside the expected last ones, once"


def test_a_shard_that_must_wait_is_begun_later() -> None:
    looks = iter([False, True, True])
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        results, _ = fan_out(
            client, doubled, range(5), at_once=1, is_ahead=lambda: next(looks, False)
        )
    assert sorted(results) == [0, 2, 4, 6, 8]

"""The garbage collector looks less often during a night, and as before after it."""

import gc
from collections.abc import Iterator

import pytest

from tasks.worker.collector import looking_less_often


@pytest.fixture
def before() -> Iterator[tuple[int, int, int]]:
    """Python's own thresholds and nothing frozen, whatever the tests before this one left in the
    process.

    A Dask worker that another test has in this process looks less often for good.
    """
    found, was_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*found)
    if was_frozen:
        gc.freeze()


def test_it_looks_as_before_once_the_block_has_ended_however_it_did(
    before: tuple[int, int, int],
) -> None:
    def night() -> None:
        with looking_less_often():
            assert gc.get_freeze_count() > 0
            assert gc.get_threshold()[0] > before[0]
            raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        night()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0

"""The garbage collector looks less often during a night, and as before after it."""

import gc

import pytest

from tasks.worker.collector import looking_less_often


def test_it_looks_as_before_once_the_block_has_ended_however_it_did() -> None:
    before = gc.get_threshold()

    def night() -> None:
        with looking_less_often():
            assert gc.get_freeze_count() > 0
            assert gc.get_threshold()[0] > before[0]
            raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        night()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0

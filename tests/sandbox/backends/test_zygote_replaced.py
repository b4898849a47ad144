"""Zygotes outlive runs and threads, and are replaced when anything happens to them."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from sandbox.backends.zygote import pool as zygote_pool
from sandbox.backends.zygote.backend import ZygoteSandbox
from schemas.errors import SandboxUnavailable
from schemas.verdict import Outcome
from tests.fixtures.processes import command_lines
from tests.sandbox.backends.zygotes import LIMITS, idle, pythons_of, verdict
from tests.sandbox.backends.zygotes import zygote as zygote


@pytest.mark.slow
def test_a_zygote_that_died_is_replaced(zygote: ZygoteSandbox):
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED
    before = idle()
    inside = psutil.Process(before._process.pid).children(recursive=True)
    before._process.kill()
    assert psutil.wait_procs(inside, 10)[1] == []
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED
    assert idle() is not before


@pytest.mark.slow
def test_a_zygote_that_is_killed_during_a_run_is_infra_and_replaced(zygote: ZygoteSandbox):
    zygote_pool.close_idle()
    earlier = _sandboxes()
    with ThreadPoolExecutor(1) as threads, zygote.session(LIMITS) as session:
        running = threads.submit(
            session.run, ("{python}", "-c", "import time; print(1, flush=True); time.sleep(60)")
        )
        mine = psutil.Process()
        while not any("time.sleep(60)" in " ".join(line) for line in command_lines(mine).values()):
            assert not running.done()
        (held,) = _sandboxes() - earlier
        held.kill()
        with pytest.raises(SandboxUnavailable, match="ended unexpectedly during a run"):
            running.result()
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED


def _sandboxes() -> set[psutil.Process]:
    """This process's sandboxes. Those of other modules may wait there, too."""
    return {child for child in psutil.Process().children() if child.name() == "bwrap"}


@pytest.mark.slow
def test_kept_files_are_not_lost_silently(zygote: ZygoteSandbox):
    zygote_pool.close_idle()
    earlier = _sandboxes()
    with zygote.session(LIMITS, keep_files=True) as session:
        session.run(("{python}", "-c", "open('kept', 'w')"))
        (held,) = _sandboxes() - earlier
        inside = held.children(recursive=True)
        held.kill()
        assert (
            psutil.wait_procs(inside, 10)[1] == []
        )  # until then it may still answer, with what it has kept
        with pytest.raises(
            SandboxUnavailable, match=r"ended (unexpectedly during a run|between two commands)"
        ):
            session.run(("{python}", "-c", "open('kept')"))
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED


@pytest.mark.slow
def test_the_process_with_the_libraries_is_not_missed_when_it_dies(zygote: ZygoteSandbox):
    """Idle, and during a run: there is another zygote, and no program has failed for it."""
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED
    before = idle()
    pythons_of(before)[1].kill()
    before._process.wait(10)
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED
    assert idle() is not before
    loaded = pythons_of(idle())[1]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(verdict, zygote, "import time\ntime.sleep(3)\ndef f(): return 1")
        while not loaded.children():
            assert not running.done()
        loaded.kill()
        assert (
            running.result().outcome is Outcome.PASSED
        )  # the second time: such a run is tried once more
    assert pythons_of(idle())[1] != loaded


@pytest.mark.parametrize("spoiled", ["_runs", "_resident"])
def test_a_zygote_that_is_not_as_new_is_replaced(zygote: ZygoteSandbox, spoiled: str):
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED
    before = idle()
    setattr(before, spoiled, 1 << 40)
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED
    assert idle() is not before
    assert before._process.returncode == -signal.SIGKILL


def test_zygotes_outlive_the_thread_that_needed_them_first(tmp_path: Path):
    sandbox = ZygoteSandbox(slots=1, slot_directory=tmp_path)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(verdict, sandbox, "def f(): return 1").result()
        before = idle()
    assert verdict(sandbox, "def f(): return 1").outcome is Outcome.PASSED
    assert idle() is before


@pytest.mark.slow
def test_a_fork_of_ours_leaves_the_zygotes_alone(zygote: ZygoteSandbox):
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED
    before = idle()
    child = os.fork()
    if child == 0:
        zygote_pool.close_idle()
        os._exit(len(zygote_pool._idle))
    assert os.waitpid(child, 0)[1] == 0
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED
    assert idle() is before

"""SIGINT, SIGTERM and `stop`: a clean end wherever they come, also where Python drops the exception
that they raise.
"""

import signal

import pytest

from tests.flows.drivers import driver

PROGRAM = """
import asyncio, os, signal, sys, time
from tasks.driver.signals import heed_signals, signals_end_cleanly

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), number)
        time.sleep(0.01)  # the handler runs here, and Python drops what it raises

class TerminationSignal(BaseException):
    pass

def of_another(number, frame):
    raise TerminationSignal

def in_a_callback():
    signal.signal(signal.SIGTERM, of_another)  # as Prefect does while a flow runs
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    loop.call_soon(os.kill, os.getpid(), number)
    loop.call_later(0.01, loop.stop)
    loop.run_forever()

number = getattr(signal, sys.argv[2])
with signals_end_cleanly():
    try:
        Finalized() if sys.argv[1] == "finalizer" else in_a_callback()
    except BaseException as error:
        print("not lost:", error)
    heed_signals()
    print("went on")
"""
PATIENT = """
import sys, time
from tasks.driver.signals import signals_end_cleanly
with signals_end_cleanly(lambda: print("last words", flush=True)):
    try:
        print("0", flush=True)
        time.sleep(60)
    finally:
        print("1", flush=True)
        time.sleep(60)
"""
READ_SLOWLY = """
import os, signal, time
from tasks.driver.signals import signals_end_cleanly
read = os.read
def read_slowly(*arguments):
    content = read(*arguments)
    time.sleep(0.5)
    return content
with signals_end_cleanly(lambda: print("last words", flush=True)):
    os.read = read_slowly
    try:
        print("0", flush=True)
        time.sleep(60)
    finally:
        time.sleep(0.2)
"""
DEAF = """
import signal, sys, time
from tasks.driver import signals
signals.END_LIMIT_S = 0.2
with getattr(signals, sys.argv[1])():
    signal.signal(signal.SIGTERM, lambda *_: None)
    print("0", flush=True)
    time.sleep(60)
"""
UNHEARD = """
import signal, time
from tasks.driver import signals
signals.END_LIMIT_S = 0.2
def say():
    raise BrokenPipeError("nobody reads what a killed terminal was to show")
with signals.signals_end_cleanly(say):
    signal.signal(signal.SIGTERM, lambda *_: None)
    print("0", flush=True)
    time.sleep(60)
"""
SLOW_TO_EXIT = """
import atexit, signal, time
from tasks.driver import signals
signals.UNWOUND_LIMIT_S = 0.2
signals.END_LIMIT_S = 50
atexit.register(time.sleep, 60)
signal.signal(signal.SIGTERM, lambda *_: 1 / 0)  # raises, as Prefect's does
with signals.terminated_in_time():
    print("0", flush=True)
    time.sleep(60)
"""
STOPPED = """
import threading, time
from tasks.driver import signals
signals.END_LIMIT_S = 0.5
class Paused(BaseException):
    pass
def heeding():
    try:
        while True:
            signals.heed_signals()
            time.sleep(0.01)
    except Paused:
        print("a thread", flush=True)
with signals.terminated_in_time():
    threads = threading.Thread(target=heeding), threading.Timer(0.1, signals.stop, [Paused])
    for thread in threads:
        thread.start()
    try:
        time.sleep(60)
    except Paused:
        threads[0].join()
        print("the main thread", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("place", "number", "status"),
    [("finalizer", "SIGTERM", 143), ("callback", "SIGTERM", 143), ("finalizer", "SIGINT", 130)],
)
def test_a_signal_whose_exception_was_dropped_is_heeded_at_the_next_step(
    place: str, number: str, status: int
) -> None:
    with driver(PROGRAM, place, number) as program:
        said, _ = program.process.communicate(timeout=30)
    assert said == ""
    assert program.process.returncode == status


def test_a_note_that_the_watching_thread_has_just_read_is_heeded() -> None:
    with driver(READ_SLOWLY) as program:
        assert program.hear() == 0
        program.process.send_signal(signal.SIGTERM)
        said, _ = program.process.communicate(timeout=30)
    assert (said, program.process.returncode) == ("last words\n", 143)


@pytest.mark.parametrize("bound", ["signals_end_cleanly", "terminated_in_time"])
def test_work_that_goes_on_after_a_signal_is_ended(bound: str) -> None:
    """The second is for flows that Prefect's runner starts and cancels, which have no command line
    around them.
    """
    with driver(DEAF, bound) as program:
        assert program.hear() == 0
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(40) == 143


def test_work_is_ended_also_where_nobody_hears_its_last_words() -> None:
    with driver(UNHEARD) as program:
        assert program.hear() == 0
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(40) == 143


def test_a_flow_that_a_signal_ended_does_not_wait_for_its_interpreter() -> None:
    with driver(SLOW_TO_EXIT) as program:
        assert program.hear() == 0
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(40) == 143


def test_a_second_ctrl_c_does_not_wait_for_the_end_of_the_first() -> None:
    with driver(PATIENT) as program:
        for step in range(2):
            assert program.hear() == step
            program.process.send_signal(signal.SIGINT)
        said, _ = program.process.communicate(timeout=40)
    assert (said, program.process.returncode) == ("last words\n", 130)


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + PATIENT
    with driver(ignoring) as program:
        assert program.hear() == 0
        program.process.send_signal(signal.SIGINT)
        program.process.send_signal(signal.SIGTERM)
        assert program.hear() == 1


def test_a_stopped_process_raises_the_given_error_in_all_that_heed_it_and_ends_in_time() -> None:
    with driver(STOPPED) as program:
        said, _ = program.process.communicate(timeout=30)
    assert (said, program.process.returncode) == ("a thread\nthe main thread\n", 0)

"""Notices tests that the candidate runs itself, in a forked child or by a call: it would learn what they compare with."""

from __future__ import annotations

import builtins
import os
import sys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

_LOOKS, _CHANCE = 1000, 16
"""As in `integrity.py`."""

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, FunctionType
    from typing import Any


def fork_watch(
    accuse: FunctionType,
    unwatched: FunctionType,
    is_candidate: Callable[[FrameType | None], bool],
    tests: tuple[str, ...],
    between: tuple[FunctionType, ...],
) -> Callable[[], None]:
    """A function that the tests call on their way; it accuses where it is the candidate that runs them.

    Children that the tests fork themselves, and functions that they hand to the candidate, are no finding. But calls that were
    under way when the candidate forked may not come back in the child; it may call no test method, nor `check` from within.

    Args:
        accuse: does not return.
        unwatched: has a function run without being watched.
        is_candidate: whether a frame is of the candidate's code.
        tests: file names that the tests are compiled with.
        between: a function of each other module of ours that calls tests, or that they call on their way here.
    """
    getpid, frame_of = os.getpid, sys._getframe
    own, folder = getpid(), os.path.dirname(os.path.abspath(__file__))
    runners = (f"{folder}/unittest_cases.py", f"{folder}/judged_program.py")
    ours, name_of = {id(function.__globals__) for function in (fork_watch, unwatched, accuse, *between)}, id
    child: list[int] = [own]
    n_looks, urandom = 0, os.urandom
    inherited: list[FrameType] = []

    def of_tests(frame: FrameType | None) -> bool:
        return frame is not None and frame.f_code.co_filename in tests

    def look_back() -> None:
        frame, is_behind = frame_of(1), False
        while frame is not None:
            if is_behind and of_tests(frame):
                inherited.append(frame)
            is_behind = is_behind or is_candidate(frame)
            frame = frame.f_back

    def in_child() -> None:
        child[0] = getpid()
        unwatched(look_back)

    def is_inherited() -> bool:
        frame = called_from()
        return any(frame is one for one in inherited)

    def called_from() -> FrameType | None:
        """What called us, told by its globals: to look at a frame's code is an event that costs ten times as much."""
        frame = frame_of(1)
        while frame is not None and name_of(frame.f_globals) in ours:
            frame = frame.f_back
        return frame

    def is_own_run() -> bool:
        checks: list[Any] = []
        frame, runs_test, is_between = called_from(), False, False
        by = None if frame is None else frame.f_back
        nonlocal n_looks
        n_looks += 1
        if by is not None and name_of(by.f_globals) in ours and n_looks > _LOOKS and urandom(1)[0] >= _CHANCE:
            return False  # the runner itself calls, as mostly: who has it do so is asked by chance, so that long loops stay fast
        is_runners = False
        while frame is not None:
            code = frame.f_code
            if of_tests(frame):
                if is_between and any(code is one for one in checks):
                    return True
                runs_test = runs_test or (code.co_name.startswith("test") and code.co_varnames[:1] == ("self",))
                checks += [code] if code.co_name == "check" else []
            elif code.co_filename in runners:
                is_runners = True
            elif is_candidate(frame):
                is_between = True
                if runs_test:
                    return True
            frame = frame.f_back
        return runs_test and not is_runners

    def here() -> None:
        now = getpid()
        if now != own and (now != child[0] or unwatched(is_inherited)):
            accuse("goes on with its tests in a child that it forked")
        if unwatched(is_own_run):
            accuse("runs its tests itself")

    os.register_at_fork(after_in_child=in_child)
    return here

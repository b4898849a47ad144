"""Keeps the frame that a signal interrupts from the candidate's handlers: it is the tests', or the runner's."""

from __future__ import annotations

import builtins

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def hide_frames_from_handlers() -> None:
    """Signal handlers get None for the interrupted frame, and a fresh copy of the module that gives it is a finding.

    The real function is kept by a generator, whose frame nobody can ask for unnoticed; what the candidate can reach of the
    functions made here has globals of its own.
    """
    make_function: Any = type(hide_frames_from_handlers)
    make_function(_replace_signal_functions.__code__, {"__builtins__": builtins})()


def _replace_signal_functions() -> None:
    import _imp
    import _signal  # pyright: ignore[reportMissingImports]  (a built-in module, which has no stub)
    from sys import audit

    def registering(register: Callable[[Any, Any], Any]) -> Any:
        outcome: Any = None
        while True:
            number, handler = yield outcome
            given = handler
            if callable(handler) and not isinstance(handler, int):

                def given(number: int, frame: object, handler: Any = handler) -> Any:
                    return handler(number, None)

                given.__wrapped__ = handler  # pyright: ignore[reportFunctionMemberAccess]  (read by the two below)
            try:
                outcome = (register(number, given), None)
            except BaseException as error:  # noqa: BLE001 - raised again for the caller
                outcome = (None, error.with_traceback(None))

    keeper = registering(_signal.signal)
    next(keeper)

    def signal(signalnum: int, handler: Any, send: Any = keeper.send) -> Any:
        before, error = send((signalnum, handler))
        if error is not None:
            raise error
        return getattr(before, "__wrapped__", before)

    def getsignal(signalnum: int, real: Any = _signal.getsignal) -> Any:
        found = real(signalnum)
        return getattr(found, "__wrapped__", found)

    def create_builtin(spec: Any, real: Any = _imp.create_builtin) -> Any:
        if spec.name in ("_signal", "_imp"):
            audit("parley.fresh_module", spec.name)
        return real(spec)

    _signal.signal, _signal.getsignal, _imp.create_builtin = signal, getsignal, create_builtin

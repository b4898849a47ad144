"""Keeps the frame that a signal interrupts from the candidate's handlers: it is the tests', or the runner's."""

from __future__ import annotations

import builtins

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from typing import Any


_AT_ONCE = 8
"""Calls of one function that may be under way: an import may need another one, and threads import too."""


def hide_frames_from_handlers() -> None:
    """Signal handlers get None for the interrupted frame; a fresh copy of the module that gives it is told to the watch.

    The real functions are kept by generators, whose frames nobody can ask for unnoticed; what the candidate can reach of the
    functions made here has globals of its own.
    """
    make_function: Any = type(hide_frames_from_handlers)
    make_function(_replace_signal_functions.__code__, {"__builtins__": builtins, "_AT_ONCE": _AT_ONCE})()


def _replace_signal_functions() -> None:
    import _imp
    import _signal  # pyright: ignore[reportMissingImports]  (a built-in module, which has no stub)
    from sys import audit, implementation

    namespace: Any = type(implementation)
    private: Any = _imp
    real_signal, real_create = _signal.signal, private.create_builtin

    def register(number: Any, handler: Any) -> Any:
        given = handler
        if callable(handler):

            def given(number: int, frame: object, handler: Any = handler) -> Any:
                return handler(number, None)

            given.__wrapped__ = handler  # pyright: ignore[reportFunctionMemberAccess]  (read by the two below)
        return real_signal(number, given)

    def create(spec: Any) -> Any:
        name = str.__str__(spec.name)  # asked for once: it could be another one next time
        if name in ("_signal", "_imp"):
            audit("parley.fresh_module", name)
        return real_create(namespace(name=name))

    def keeping(function: Any) -> Any:
        outcome: Any = None
        while True:
            arguments = yield outcome
            try:
                outcome = (function(*arguments), None)
            except BaseException as error:  # noqa: BLE001 - raised again for the caller
                outcome = (None, error.with_traceback(None))

    def kept(function: Any) -> Any:
        keepers = [keeping(function) for _ in range(_AT_ONCE)]
        for keeper in keepers:
            next(keeper)
        return tuple(keeper.send for keeper in keepers)

    def called(senders: Any, *arguments: Any) -> Any:
        while True:
            for send in senders:
                try:
                    outcome, error = send(arguments)
                except ValueError:  # in use, by another thread or further down
                    continue
                if error is not None:
                    raise error
                return outcome

    def getsignal(signalnum: int, real: Any = _signal.getsignal) -> Any:
        found = real(signalnum)
        return getattr(found, "__wrapped__", found)

    (first, *others), creators = kept(register), kept(create)

    def signal(signalnum: int, handler: Any, send: Any = first, others: Any = others) -> Any:
        before = called((send, *others), signalnum, handler)
        return getattr(before, "__wrapped__", before)

    def create_builtin(spec: Any, senders: Any = creators) -> Any:
        return called(senders, spec)

    _signal.signal, _signal.getsignal, private.create_builtin = signal, getsignal, create_builtin

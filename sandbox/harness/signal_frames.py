"""Hides the frame that a signal interrupts, the tests' or the runner's, from the candidate's handlers."""

from __future__ import annotations

import builtins

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from typing import Any


def hide_frames_from_handlers() -> None:
    """Give signal handlers None for the interrupted frame, and tell the watch of a fresh copy of the signal module.

    Generators keep the real functions: nobody asks for their frames unnoticed. The functions within the candidate's reach have
    globals of their own. Attacks: a signal handler's frame, the runner's key by its wrappers, a fresh signal module.
    """
    make_function: Any = type(hide_frames_from_handlers)
    make_function(_replace_signal_functions.__code__, {"__builtins__": builtins})()


def _replace_signal_functions() -> None:
    import _imp
    import _signal  # pyright: ignore[reportMissingImports]  (a built-in module, which has no stub)
    from sys import audit, implementation

    namespace: Any = type(implementation)
    private: Any = _imp
    real_signal, real_create = _signal.signal, private.create_builtin

    def register(number: Any, handler: Any) -> Any:
        def given(number: int, frame: object, handler: Any = handler) -> Any:
            return handler(number, None)

        vars(given)["__wrapped__"] = handler
        return real_signal(number, given if callable(handler) else handler)

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
        keepers = [keeping(function) for _ in range(8)]  # an import may need another one, and threads import too
        return tuple(keeper.send for keeper in keepers if next(keeper) is None)

    def called(senders: Any, *arguments: Any) -> Any:
        for send in senders:
            try:
                outcome, error = send(arguments)
            except ValueError:  # in use, by another thread or further down
                continue
            if error is not None:
                raise error
            return outcome
        return called(senders, *arguments)

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

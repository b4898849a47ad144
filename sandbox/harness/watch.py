"""Notices a candidate that looks for its tests (in frames, among objects, in memory), or runs them itself.

Nobody can remove an audit hook, and the supervisor is told each finding at once: the candidate cannot take it back. The name of
a file tells who asks, so code under another's name is a finding, too. Python's own library and libraries of others may look at
frames, unless they hand one on to the candidate.

No class is defined here, and the hook binds all that it uses: a candidate finds classes among object's subclasses, and patches
modules.
"""

from __future__ import annotations

import _imp
import _signal  # pyright: ignore[reportMissingImports]  (a built-in module, which has no stub)
import _thread
import builtins
import os
import sys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

_ALWAYS = {
    **dict.fromkeys(("sys._current_frames", "sys._current_exceptions"), "looks into frames"),
    **dict.fromkeys(("gc.get_objects", "gc.get_referrers", "gc.get_referents"), "searches the interpreter's objects"),
}
"""Held attacks: frames of all threads, a forked child reads memory."""
_TRACES, _MAY_TRACE = ("sys.settrace", "sys.setprofile"), ("doctest.py", "cProfile.py", "threading.py")
_FRAME_ATTRIBUTES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_code")
_CODE_OF = ("__code__", "gi_code", "cr_code", "ag_code")
_OTHER_INTERPRETERS = ("_xxsubinterpreters", "_interpreters", "_testcapi", "_testinternalcapi", "_signal", "_imp")
_GIVERS = ("walk_tb", "walk_stack", "currentframe", "<lambda>", "_task_get_stack", "gi_frame", "cr_frame")
"""Functions of Python's own library that give frames to any caller, beside `inspect`. Attack: all frames by logging."""


def start_watch(
    accuse: Callable[[str], None],
    trusted: tuple[str, ...],
    tests: tuple[str, ...] | frozenset[str],
    names: dict[str, Any],
    own: list[int],
) -> tuple[Callable[[], None], Callable[[bool], None], Callable[[CodeType], bool]]:
    """Listen from now on. Signal handlers are given None for the interrupted frame, the tests' or the runner's.

    Returns functions: the tests call one on their way, their methods and `check` one as they begin, the last knows code of tests
    and libraries, but not of mocks. Children that the tests fork themselves are no finding, nor functions that they hand over.
    Calls under way when the candidate forked may not come back in the child. Attacks: a child goes on, tests run to be told.

    Args:
        accuse: told each finding at once; does not return to the candidate.
        trusted: folders whose code is not the candidate's: Python's own library, ours, and others.
        tests: file names that the tests are compiled with.
        names: the candidate's module. Code that runs in it is the candidate's, whatever its name.
        own: the process that the tests are given to.
    """
    busy: set[int] = set()
    known = (*(f"{folder}/" for folder in trusted), "<frozen")
    library, harness = known[:2]
    frame_of, thread, value_of, getpid = sys._getframe, _thread.get_ident, getattr, os.getpid
    child: list[int] = [*own]
    inherited: list[FrameType] = []
    private: Any = _imp
    namespace: Any = type(sys.implementation)
    real_signal, real_create = _signal.signal, private.create_builtin
    code_kind, module_kind = type(start_watch.__code__), type(sys)
    function_kind: Any = type(start_watch)

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        check = checks.get(event)
        if check is None:
            return
        if check is asked:
            finding = asked(event, *arguments)
        elif thread() in busy:
            return
        else:
            finding = unwatched(lambda: check(event, arguments, frame_of(3)))
        if finding is not None:
            busy.add(thread())
            accuse(finding)

    def unwatched(step: Callable[[], Any]) -> Any:
        me = thread()
        if me in busy:
            return step()
        busy.add(me)
        try:
            return step()
        finally:
            busy.discard(me)

    def is_candidate(frame: FrameType | None) -> bool:
        if frame is None:
            return True
        file = frame.f_code.co_filename
        return file not in tests and (frame.f_globals is names or not file.startswith(known))

    def calls(frame: FrameType | None) -> list[tuple[FrameType, CodeType]]:
        """List the calls from this one to the nearest of the candidate's; none where the tests' comes before."""
        found: list[tuple[FrameType, CodeType]] = []
        while frame is not None:
            code = frame.f_code
            found.append((frame, code))
            if code.co_filename in tests:
                return []
            if is_candidate(frame):
                return found
            frame = frame.f_back
        return []

    def own_name(code: CodeType) -> str:
        """Give the name of a file of Python's own library below its folder; nothing for any other."""
        name = code.co_filename
        is_others = "site-packages/" in name or "dist-packages/" in name or not name.startswith((library, "<frozen"))
        return "" if is_others else name.removeprefix(library)

    def is_passing(code: CodeType) -> bool:
        """Tell whether it is a function of Python's own library: another asked it."""
        return bool(own_name(code)) and code.co_name != "<module>"

    def is_asking(frame: FrameType | None) -> bool:
        """Tell whether the candidate asks, itself or by Python's own library, and not by a library of others."""
        while frame is not None and is_passing(frame.f_code) and not is_candidate(frame):
            frame = frame.f_back
        return is_candidate(frame)

    def always(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        return _ALWAYS[event] if is_candidate(frame) else None

    def frames(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        called = calls(frame)
        return "looks into frames" if len(called) == 1 or (called and hands_on(event, arguments, called)) else None

    def hands_on(event: str, arguments: tuple[Any, ...], called: list[tuple[FrameType, CodeType]]) -> bool:
        """Tell whether the library that the candidate called may give it this frame, or hand it on."""
        is_call, code = event == "sys._getframe", called[0][1]
        name = "_getframe" if is_call else arguments[1]
        if name not in code.co_names:  # it was handed a function or a name; attack: attributes by string.Formatter
            return True
        by = next(i for i, (_, one) in enumerate(called) if i == len(called) - 1 or not is_passing(one))
        if by == 0:  # a library of others; attacks: a variable of the tests by pandas, frames by pytest
            is_theirs = (is_call or name == "f_code") and arguments[0].f_code.co_filename.startswith((*tests, harness))
            return is_theirs or (name in _FRAME_ATTRIBUTES[:-1] and len(called) == 2)
        if by == len(called) - 1:  # attacks: frames by a pickle that a library loads, variables of all frames by inspect.stack
            return own_name(code) == "inspect.py" or (by == 1 and code.co_name in _GIVERS)
        is_loading = called[by][1].co_name == "<module>"
        return not is_loading and not is_named(called[by - 1][1], *called[by])

    def is_named(called: CodeType, by: FrameType, code: CodeType) -> bool:
        """Tell whether a library calls it by its name. Attack: frames by a function of pandas whose tools were replaced."""
        name, held = called.co_name, by.f_globals
        modules = [value for value in map(held.get, code.co_names) if type(value) is module_kind]
        is_local = own_name(called)[:-3] in code.co_varnames
        return name in code.co_names and (is_local or name in held or any(name in module.__dict__ for module in modules))

    def traces(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        called = calls(frame)  # attack: a profiler that is handed a function
        is_known_tracer = len(called) > 1 and own_name(called[0][1]) in ("", *_MAY_TRACE)
        return "traces its tests" if called and not is_known_tracer else None

    def reads(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if arguments[1] in _FRAME_ATTRIBUTES:
            return frames(event, arguments, frame)
        name = "__code__" if arguments[1] == "__defaults__" else arguments[1]
        if name not in _CODE_OF or (name == "__code__" and type(arguments[0]) is not function_kind):
            return None
        if not value_of(arguments[0], name).co_filename.startswith((*tests, harness)):
            return None
        called = calls(frame)
        names_it = len(called) > 1 and arguments[1] in called[0][1].co_names and own_name(called[0][1]) != "dis.py"
        return "reads the code of its tests" if called and not names_it else None

    def rewrites(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if arguments[1] != "__code__" or type(arguments[0]) is not function_kind or not is_asking(frame):
            return None
        # attack: an assertion rewritten by a function of the library
        is_own = not is_known(arguments[0].__code__) and not is_known(arguments[2])
        return None if is_own else "rewrites a function that is not its own"

    def is_known(code: Any) -> bool:
        return type(code) is code_kind and code.co_filename.startswith((*known, *tests))

    def runs(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        # attacks: equality by code that passes for the library's, a function made of such code
        return "runs code that passes for the library's" if is_known(arguments[0]) and is_candidate(frame) else None

    def renews(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        found = arguments[0] in _OTHER_INTERPRETERS and calls(frame)  # attack: an interpreter of its own
        return "leaves the interpreter that it is watched in" if found else None

    def finds_symbol(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        inner = str(arguments[1]).startswith(("Py", "_Py"))  # attack: frames by Python's own interface to C
        return "reaches into the interpreter" if inner and is_asking(frame) else None

    def asked(event: str, box: list[Any]) -> str | None:
        """Do what a stand-in asks for, its answer into the box. This calls code of the candidate's, so the watch goes on.

        Attacks: a signal handler's frame, the runner's key by its wrappers, a fresh signal module by _imp.
        """
        if event == "parley.signal":
            number, handler = box
            box[0] = real_signal(number, frameless(handler) if callable(handler) else int(handler))
            return None
        name = str.__str__(box[0])
        if name in _OTHER_INTERPRETERS:
            return "leaves the interpreter that it is watched in"
        box[0] = real_create(namespace(name=name))
        return None

    def behind_candidate(frame: FrameType | None) -> list[FrameType]:
        """List the calls that wait for the candidate's."""
        found: list[FrameType] = []
        while frame is not None:
            if found or is_candidate(frame):
                found.append(frame)
            frame = frame.f_back
        return found

    def in_child() -> None:
        child[0] = getpid()
        inherited[:] = unwatched(lambda: behind_candidate(frame_of(1)))

    def called_from() -> FrameType:
        frame = frame_of(1)
        while frame.f_code.co_filename.startswith(harness) and frame.f_back is not None:
            frame = frame.f_back
        return frame

    def here() -> None:
        now = getpid()
        if now != own[0] and (now != child[0] or unwatched(lambda: called_from() in inherited)):
            accuse("goes on with its tests in a child that it forked")

    def is_candidates_call(is_method: bool) -> bool:
        frame = called_from()
        behind = behind_candidate(frame)
        return bool(behind) and (is_method or any(one.f_code is frame.f_code for one in behind))

    def entered(is_method: bool) -> None:
        if unwatched(lambda: is_candidates_call(is_method)):
            accuse("runs its tests itself")

    checks: dict[str, Any] = {
        **dict.fromkeys(_ALWAYS, always),
        **dict.fromkeys(_TRACES, traces),
        **dict.fromkeys(("exec", "function.__new__"), runs),
        "sys._getframe": frames,
        "object.__getattr__": reads,
        "object.__setattr__": rewrites,
        "import": renews,
        **dict.fromkeys(("parley.signal", "parley.builtin"), asked),
        "ctypes.dlsym": finds_symbol,
    }
    os.register_at_fork(after_in_child=in_child)
    stand_ins = function_kind(_stand_ins.__code__, {"__builtins__": builtins})
    frameless, _signal.signal, _signal.getsignal, private.create_builtin = stand_ins(sys.audit, _signal.getsignal)
    sys.addaudithook(hear)
    return here, entered, lambda code: is_known(code) and not code.co_filename.endswith("/unittest/mock.py")


def _stand_ins(audit: Any, real_getsignal: Any) -> Any:
    """Make functions for the candidate's reach: what they need they ask of the hook, and their globals are their own."""

    def frameless(handler: Any) -> Any:
        def given(number: int, frame: object, handler: Any = handler) -> Any:
            return handler(number, None)

        vars(given)["__wrapped__"] = handler
        return given

    def shown(found: Any) -> Any:
        return getattr(found, "__wrapped__", found)

    def signal(signalnum: int, handler: Any) -> Any:
        box = [signalnum, handler]
        audit("parley.signal", box)
        return shown(box[0])

    def getsignal(signalnum: int) -> Any:
        return shown(real_getsignal(signalnum))

    def create_builtin(spec: Any) -> Any:
        box = [spec.name]
        audit("parley.builtin", box)
        return box[0]

    return frameless, signal, getsignal, create_builtin

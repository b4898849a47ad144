"""Notices a candidate that looks for its tests: in frames, among the interpreter's objects, in memory.

An audit hook cannot be removed, and each finding is told at once: what comes after it can no longer be taken back. Who asks
is told by the name of a file, so code that takes another's name is a finding, too. Python's own library may look at frames, and
so may libraries of others, unless they hand one on to the candidate.

There is no class here, and all that is used is bound when the hook is made: classes could be found among object's subclasses,
and modules can be patched.
"""

from __future__ import annotations

import _thread
import builtins
import os
import sys

from forks import fork_watch
from library_values import names_of_library

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, FunctionType
    from typing import Any

_ALWAYS = {
    **dict.fromkeys(("sys._current_frames", "sys._current_exceptions"), "looks into frames"),
    **dict.fromkeys(("gc.get_objects", "gc.get_referrers", "gc.get_referents"), "searches the interpreter's objects"),
    **dict.fromkeys(("ctypes.string_at", "ctypes.wstring_at", "ctypes.cdata", "ctypes.PyObj_FromPtr"), "reads memory"),
    "code.__new__": "makes code objects by hand",
}
_TRACES, _MAY_TRACE = ("sys.settrace", "sys.setprofile"), ("doctest.py", "cProfile.py", "threading.py")
_FRAME_ATTRIBUTES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_code")
_CODE_OF = ("__code__", "gi_code", "cr_code", "ag_code")
_OTHER_INTERPRETERS = ("_xxsubinterpreters", "_interpreters", "_testcapi", "_testinternalcapi", "_signal", "_imp")
_C_NAMES = ("Py", "_Py", "prctl", "ptrace", "process_vm", "syscall")
_GIVERS = {
    "traceback.py": {"walk_tb", "walk_stack"},
    "inspect.py": {
        *("currentframe", "stack", "trace", "getouterframes", "getinnerframes"),
        *("_getmembers", "getmembers", "getattr_static"),
    },
    "logging/__init__.py": {"<lambda>", "currentframe"},
    "asyncio/base_tasks.py": {"_task_get_stack"},
    "types.py": {"gi_frame", "cr_frame"},
}
"""Functions of Python's own library that hand the frames they look at to whoever calls."""
_READERS = {"_extract_from_extended_frame_gen", "extended_frame_gen", "findCaller", "_task_print_stack", "_get_code_position"}
"""Functions that take frames from those and make text of them."""


def start_watch(
    accuse: Callable[[str], None],
    library: str,
    trusted: tuple[str, ...],
    tests: tuple[str, ...],
    names: dict[str, Any],
    between: tuple[Callable[..., Any], ...] = (),
) -> Callable[[], None]:
    """Listen from now on; what it returns the tests call on their way (see `fork_watch`).

    Args:
        accuse: told what was noticed, at once; does not return to the candidate.
        library: folder of Python's own library.
        trusted: other folders whose code is not the candidate's.
        tests: file names that the tests are compiled with.
        names: the candidate's module: what runs in it is its own, whatever the code's name.
        between: see `fork_watch`.
    """
    busy: set[int] = set()
    harness = os.path.dirname(os.path.abspath(__file__))
    known = (f"{library}/", *(f"{folder}/" for folder in (*trusted, harness)), "<frozen")
    frame_of, thread, value_of = sys._getframe, _thread.get_ident, getattr
    function_kind, code_kind, module_kind = type(start_watch), type(start_watch.__code__), type(sys)

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        check = checks.get(event)
        if check is None:
            return
        me = thread()
        if me in busy:
            return
        busy.add(me)
        try:
            finding = check(event, arguments, frame_of(1))
        finally:
            busy.discard(me)
        if finding is not None:
            busy.add(me)
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

    def is_behind(frame: FrameType | None, readers: set[str] = set()) -> bool:  # noqa: B006 - nobody adds to it
        """Whether the candidate called the library, and not by a function that keeps what it gets."""
        while frame is not None and not is_candidate(frame) and frame.f_code.co_filename not in tests:
            if frame.f_code.co_name in readers:
                return bool(frame.f_locals.get("capture_locals"))
            frame = frame.f_back
        return frame is not None and is_candidate(frame)

    def own_name(frame: FrameType | None) -> str | None:
        """The name of a file of Python's own library below its folder; None for any other."""
        name = "" if frame is None else frame.f_code.co_filename
        inside = name.startswith(f"{library}/") and "site-packages/" not in name and "dist-packages/" not in name
        return name[len(library) + 1 :] if inside else None

    def asked_by(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
        """What had Python's own library do this, or a module that is being loaded, and what it called."""
        called = frame
        while frame is not None and own_name(frame) is not None and not is_candidate(frame) and not is_loading(frame):
            called, frame = frame, frame.f_back
        return frame, called

    def is_named(called: FrameType | None, by: FrameType) -> bool:
        """Whether a library calls that by its name: else it may be the candidate's choice."""
        name, code = "" if called is None else called.f_code.co_name, by.f_code
        modules = [value for value in map(by.f_globals.get, code.co_names) if type(value) is module_kind]
        has_module = any(name in module.__dict__ for module in modules) or (own_name(called) or "")[:-3] in code.co_varnames
        of_module = name in code.co_names and (name in by.f_globals or has_module)
        return of_module or name in code.co_varnames[: code.co_argcount]

    def is_loading(frame: FrameType | None) -> bool:
        return frame is not None and frame.f_code.co_name == "<module>" and not is_candidate(frame)

    def is_asking(frame: FrameType | None) -> bool:
        """Whether it is the candidate, itself or by Python's own library, and not by a library of others."""
        return is_candidate(asked_by(frame)[0])

    def always(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        return _ALWAYS[event] if is_candidate(frame) else None

    def frames(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if frame is None or is_candidate(frame):
            return "looks into frames"
        if arguments[1:] == ("f_code",) and own_name(frame) is not None and is_whole(frame):  # tells less than to get the frame
            return None
        return "looks into frames" if is_behind(frame) and hands_on(event, arguments, frame) else None

    def hands_on(event: str, arguments: tuple[Any, ...], frame: FrameType) -> bool:
        """Whether what the candidate called may give it the frame, or hand that to something of the candidate's."""
        is_call = event == "sys._getframe"
        if ("_getframe" if is_call else arguments[1]) not in frame.f_code.co_names:  # it was handed a function or a name
            return True
        by, called = asked_by(frame)
        if is_loading(by):
            return False
        at: FrameType | None = frame
        while at is not None and not is_candidate(at):
            if not is_whole(at):
                return True
            at = None if at is by else at.f_back
        if by is frame:  # a library of others, by itself
            if is_call or arguments[1] == "f_code":
                return arguments[0].f_code.co_filename.startswith((*tests, f"{harness}/"))
            return is_candidate(frame.f_back)
        if by is None or is_candidate(by) or by.f_code.co_filename.startswith("<frozen"):
            return frame.f_code.co_name in _GIVERS.get(own_name(frame) or "", ()) and is_behind(frame, _READERS)
        return not is_named(called, by) or (by.f_code.co_name[0] == "_" and is_candidate(by.f_back))

    def is_trusted(function: FunctionType) -> bool:
        return is_known(function.__code__) and function.__globals__ is not names

    def traces(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if is_candidate(frame):
            return "traces its tests"
        return "traces its tests" if own_name(frame) not in (None, *_MAY_TRACE) and is_behind(frame) else None

    def reads(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if arguments[1] in _FRAME_ATTRIBUTES:
            return frames(event, arguments, frame)
        if arguments[1] not in _CODE_OF or (arguments[1] == "__code__" and type(arguments[0]) is not function_kind):
            return None
        if not value_of(arguments[0], arguments[1]).co_filename.startswith((*tests, f"{harness}/")):
            return None
        names_it = frame is not None and arguments[1] in frame.f_code.co_names and own_name(frame) != "dis.py"
        return "reads the code of its tests" if is_candidate(frame) or (is_behind(frame) and not names_it) else None

    def rewrites(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if arguments[1] != "__code__" or type(arguments[0]) is not function_kind or not is_asking(frame):
            return None
        is_own = not is_known(arguments[0].__code__) and not is_known(arguments[2])
        return None if is_own else "rewrites a function that is not its own"

    def is_known(code: Any) -> bool:
        return type(code) is code_kind and code.co_filename.startswith((*known, *tests))

    def runs(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        return "runs code that passes for the library's" if is_candidate(frame) and is_known(arguments[0]) else None

    def loads(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        named = is_candidate(frame) and any(name.encode() in bytes(arguments[0]) for name in (*known, *tests))
        return "makes code that passes for the library's" if named else None

    def renews(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        return "leaves the interpreter that it is watched in"

    def imports(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        leaves = arguments[0] in _OTHER_INTERPRETERS and (is_candidate(frame) or is_behind(frame))
        return "leaves the interpreter that it is watched in" if leaves else None

    def finds_symbol(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        inner = str(arguments[1]).startswith(_C_NAMES)
        return "reaches into the interpreter" if inner and is_asking(frame) else None

    checks = {
        **dict.fromkeys(_ALWAYS, always),
        **dict.fromkeys(_TRACES, traces),
        **dict.fromkeys(("exec", "function.__new__"), runs),
        "sys._getframe": frames,
        "object.__getattr__": reads,
        "object.__setattr__": rewrites,
        "marshal.loads": loads,
        "import": imports,
        "parley.fresh_module": renews,
        "ctypes.dlsym": finds_symbol,
    }
    is_whole = names_of_library(is_trusted)
    here = fork_watch(accuse, unwatched, is_candidate, tests, between)
    sys.addaudithook(hear)
    return here

"""Notices a candidate that looks for its tests: in frames, among the interpreter's objects, in memory, in /proc.

An audit hook cannot be removed, and each finding is told at once: what comes after it can no longer be taken back. What Python's
own library does (namedtuple asks for its caller's frame, say) is no finding, unless it hands a frame on to the candidate; nor is
what some libraries of others ask for themselves (pandas, to warn, looks for its caller).

There is no class here, and all that is used is bound when the hook is made: classes could be found among object's subclasses,
and modules can be patched.
"""

from __future__ import annotations

import _thread
import builtins
import os
import sys

from forks import fork_watch
from known_readers import CODE_READERS, FRAME_READERS, FRAMES_STAY, GIVERS, HAND_ON, KEEPERS, TAKE_FRAMES
from library_values import whole_modules
from made_code import code_checks

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_ALWAYS = {
    "sys._current_frames": "looks into frames",
    "sys._current_exceptions": "looks into frames",
    "gc.get_objects": "searches the interpreter's objects",
    "gc.get_referrers": "searches the interpreter's objects",
    "gc.get_referents": "searches the interpreter's objects",
    "ctypes.string_at": "reads memory",
    "ctypes.wstring_at": "reads memory",
    "ctypes.cdata": "reads memory",
    "ctypes.PyObj_FromPtr": "reads memory",
    "code.__new__": "makes code objects by hand",
}
_TRACES = ("sys.settrace", "sys.setprofile")
_FRAME_ATTRIBUTES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
_CODE_OF = ("__code__", "gi_code", "cr_code", "ag_code")
_OTHER_INTERPRETERS = ("_xxsubinterpreters", "_interpreters", "_testcapi", "_testinternalcapi", "_signal", "_imp")
_C_NAMES = ("Py", "_Py", "prctl", "ptrace", "process_vm", "syscall")
_PROCESS_FILES = ("/proc/self", "/proc/thread-self", *(f"/proc/{digit}" for digit in range(1, 10)))
_MAY_TRACE = ("doctest.py", "cProfile.py", "threading.py")


def start_watch(
    accuse: Callable[[str], None],
    library: str,
    trusted: tuple[str, ...],
    tests: tuple[str, ...],
    between: tuple[Callable[..., Any], ...] = (),
) -> Callable[[], None]:
    """Listen from now on; what it returns the tests call on their way (see `fork_watch`).

    Args:
        accuse: told what was noticed, at once; does not return to the candidate.
        library: folder of Python's own library.
        trusted: other folders whose code is not the candidate's.
        tests: file names that the tests are compiled with.
        between: see `fork_watch`.
    """
    busy: set[int] = set()
    harness = os.path.dirname(os.path.abspath(__file__))
    known = (f"{library}/", *(f"{folder}/" for folder in (*trusted, harness)), "<frozen")
    frame_of, thread, decode = sys._getframe, _thread.get_ident, os.fsdecode
    working_directory, function_kind, module_kind, value_of = os.getcwd, type(start_watch), type(sys), getattr
    is_whole = whole_modules(lambda name: name.startswith(known))

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
        return frame is None or not (frame.f_code.co_filename in tests or frame.f_code.co_filename.startswith(known))

    def stands_behind(frame: FrameType | None, readers: set[str]) -> bool:
        """Whether the library was called by the candidate, and not by a function that keeps what it gets."""
        while frame is not None and frame.f_code.co_filename.startswith(known):
            if frame.f_code.co_name in readers:
                return bool(frame.f_locals.get("capture_locals"))
            frame = frame.f_back
        return frame is not None and is_candidate(frame)

    def asked_by(frame: FrameType | None) -> FrameType | None:
        """Of a library of others, what had Python's own do this; None if it was the candidate or nobody."""
        while frame is not None and own_name(frame) is not None:
            frame = frame.f_back
        return None if frame is None or is_candidate(frame) else frame

    def keeps_frames(frame: FrameType | None) -> bool:
        """Whether one of those asked that are known to keep them, or one that is being loaded and names what it calls.

        What it hands them to must be Python's own.
        """
        asked = asked_by(frame)
        if asked is None:
            return False
        called = ""
        while frame is not None and frame is not asked:
            called, frame = frame.f_code.co_name, frame.f_back
        is_known = asked.f_code.co_filename.endswith(KEEPERS.get(asked.f_code.co_name, "\0"))
        if not is_known and not (called in asked.f_code.co_names and is_loading(asked)):
            return False
        module = asked.f_globals.get("inspect")
        return module is None or (type(module) is module_kind and all(is_inspecting(module, name) for name in TAKE_FRAMES))

    def is_loading(frame: FrameType | None) -> bool:
        """Whether a module of a library has it done while it is imported."""
        while frame is not None and not is_candidate(frame):
            if frame.f_code.co_name == "<module>" and not frame.f_code.co_filename.startswith("<"):
                return True
            frame = frame.f_back
        return False

    def is_inspecting(module: Any, name: str) -> bool:
        found = module.__dict__.get(name)
        return type(found) is function_kind and found.__code__.co_filename == f"{library}/inspect.py"

    def own_name(frame: FrameType | None) -> str | None:
        """The name of a file of Python's own library below its folder; None for any other."""
        name = "" if frame is None else frame.f_code.co_filename
        inside = name.startswith(f"{library}/") and "site-packages/" not in name and "dist-packages/" not in name
        return name[len(library) + 1 :] if inside else None

    def always(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        return _ALWAYS[event] if is_candidate(frame) or stands_behind_ctypes(frame) else None

    def stands_behind_ctypes(frame: FrameType | None, symbol: str = "") -> bool:
        if frame is None or not (own_name(frame) or "").startswith("ctypes/"):
            return False
        asked = asked_by(frame)
        names_it = asked is not None and (symbol or frame.f_code.co_name) in asked.f_code.co_names
        return not names_it and stands_behind(frame, set())

    def hands_on(frame: FrameType | None) -> bool:
        """Whether something that Python's own library calls on the way is not its own, and could be handed the frame."""
        while frame is not None:
            name = own_name(frame)
            if name is None:
                return False
            if name.startswith(HAND_ON) and not is_whole(frame, name):
                return True
            frame = frame.f_back
        return False

    def is_tests(event: str, arguments: tuple[Any, ...]) -> bool:
        """Whether it is a frame of the tests or of the runner that is asked for."""
        found = arguments[0] if event == "sys._getframe" and arguments else None
        return found is not None and found.f_code.co_filename.startswith((*tests, f"{harness}/"))

    def frames(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if frame is None or is_candidate(frame):
            return "looks into frames"
        if (hands_on(frame) or (own_name(frame) is None and is_tests(event, arguments))) and stands_behind(frame, set()):
            return "looks into frames"
        if ("_getframe" if event == "sys._getframe" else arguments[1]) in frame.f_code.co_names:  # else it was handed a function
            name = own_name(frame)
            givers = None if name is None else FRAMES_STAY.get(name)
            is_keeper = name is None and not any(part in frame.f_code.co_filename for part in GIVERS)
            if is_keeper or (givers is not None and frame.f_code.co_name not in givers) or keeps_frames(frame):
                return None
        return "looks into frames" if stands_behind(frame, FRAME_READERS) else None

    def traces(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if is_candidate(frame):
            return "traces its tests"
        name = own_name(frame)
        return "traces its tests" if name not in (None, *_MAY_TRACE) and stands_behind(frame, set()) else None

    def attribute(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if arguments[1] in _FRAME_ATTRIBUTES:
            return frames(event, arguments, frame)
        if arguments[1] not in _CODE_OF or (arguments[1] == "__code__" and type(arguments[0]) is not function_kind):
            return None
        if not value_of(arguments[0], arguments[1]).co_filename.startswith((*tests, f"{harness}/")):
            return None
        return "reads the code of its tests" if is_candidate(frame) or stands_behind(frame, CODE_READERS) else None

    def opens(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if not isinstance(arguments[0], (str, bytes)):
            return None
        path = decode(arguments[0])
        whole = _plain_path(path if path.startswith("/") else f"{working_directory()}/{path}")
        into = whole.startswith(_PROCESS_FILES) or ("/dev/" in path and ".." in path)
        return "looks into /proc" if into and is_candidate(frame) else None

    def renews(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        return "leaves the interpreter that it is watched in"

    def imports(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        name, path = arguments[0], arguments[1]
        if name in _OTHER_INTERPRETERS and (is_candidate(frame) or stands_behind(frame, set())):
            return "leaves the interpreter that it is watched in"
        return own_native_code(path) if isinstance(path, str) and path.endswith(".so") else None

    def own_native_code(path: str) -> str | None:
        whole = _plain_path(path if path.startswith("/") else f"{working_directory()}/{path}")
        writable = whole.startswith(("/box/", "/tmp/", "/dev/shm/")) and not whole.startswith(known)
        return "loads machine code of its own" if writable else None

    def opens_library(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        path = arguments[0]
        return own_native_code(path) if isinstance(path, str) and "/" in path else None

    def finds_symbol(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        inner = str(arguments[1]).startswith(_C_NAMES)
        behind = is_candidate(frame) or stands_behind_ctypes(frame, str(arguments[1]))
        return "reaches into the interpreter" if inner and behind else None

    checks = {
        **dict.fromkeys(_ALWAYS, always),
        **dict.fromkeys(_TRACES, traces),
        "sys._getframe": frames,
        "object.__getattr__": attribute,
        **dict.fromkeys(("open", "os.listdir", "os.scandir", "os.chdir", "os.symlink", "os.link"), opens),
        "import": imports,
        "parley.fresh_module": renews,
        **code_checks(known, tests, is_candidate, own_name, asked_by, stands_behind),
        "ctypes.dlopen": opens_library,
        "ctypes.dlsym": finds_symbol,
    }
    here = fork_watch(accuse, unwatched, is_candidate, tests, between)
    sys.addaudithook(hear)
    return here


def _plain_path(path: str) -> str:
    """An absolute path without `.`, `..` and doubled slashes; os.path's own function could be patched."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)

"""Notices a candidate that looks for its tests: in frames, among the interpreter's objects, in memory, in /proc.

An audit hook cannot be removed. What Python's own library does (namedtuple asks for its caller's frame, say) is no finding.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_FINDINGS = {
    "sys._getframe": "looks into frames",
    "sys._current_frames": "looks into frames",
    "sys._current_exceptions": "looks into frames",
    "sys.settrace": "traces its tests",
    "sys.setprofile": "traces its tests",
    "gc.get_objects": "searches the interpreter's objects",
    "gc.get_referrers": "searches the interpreter's objects",
    "gc.get_referents": "searches the interpreter's objects",
    "ctypes.string_at": "reads memory",
    "ctypes.wstring_at": "reads memory",
    "ctypes.cdata": "reads memory",
    "ctypes.PyObj_FromPtr": "reads memory",
    "code.__new__": "makes code objects by hand",
}
_FRAME_ATTRIBUTES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
_FRAME_GIVERS = ("inspect.py", "traceback.py")  # library files that hand frames to whoever asks
_PROCESS_FILES = ("/proc/self", "/proc/thread-self", *(f"/proc/{digit}" for digit in range(1, 10)))


class Watch:
    """Listens from its making on; `findings` names what was noticed, in order."""

    def __init__(self, trusted: tuple[str, ...], tests: str) -> None:
        self.findings: list[str] = []
        self._trusted, self._tests = (*trusted, "<frozen", os.path.dirname(__file__)), tests
        self._busy = False
        self._frame = sys._getframe
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._busy:
            return
        finding = _FINDINGS.get(event) or self._finding(event, arguments)
        if finding is None:
            return
        self._busy = True
        try:
            if self._is_candidate(self._frame(1), event):
                self.findings.append(finding)
        finally:
            self._busy = False

    def _finding(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        if event == "object.__getattr__":
            return "looks into frames" if arguments[1] in _FRAME_ATTRIBUTES else None
        if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            return "looks into /proc" if path.startswith(_PROCESS_FILES) else None
        if event == "compile" and isinstance(arguments[1], (str, bytes)):
            name = os.fsdecode(arguments[1])
            return "makes code that passes for the library's" if name.startswith((*self._trusted, self._tests)) else None
        return None

    def _is_candidate(self, frame: FrameType | None, event: str) -> bool:
        if frame is None:
            return True
        name = frame.f_code.co_filename
        if event == "sys._getframe" and name.endswith(_FRAME_GIVERS) and name.startswith(self._trusted):
            giver = name
            while frame is not None and frame.f_code.co_filename == giver:
                frame = frame.f_back
            name = frame.f_code.co_filename if frame is not None else ""
        return name != self._tests and not name.startswith(self._trusted)

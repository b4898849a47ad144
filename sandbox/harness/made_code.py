"""What the watch says of code that is made, renamed or put into another function: code is known by the name of its file."""

from __future__ import annotations

import builtins
import os
import sys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_CODE_ATTRIBUTES = ("__code__", "__defaults__", "__kwdefaults__")


def code_checks(
    known: tuple[str, ...],
    tests: tuple[str, ...],
    is_candidate: Callable[[FrameType | None], bool],
    own_name: Callable[[FrameType | None], str | None],
    asked_by: Callable[[FrameType | None], FrameType | None],
    stands_behind: Callable[[FrameType | None, set[str]], bool],
) -> dict[str, Callable[[str, tuple[Any, ...], FrameType | None], str | None]]:
    """The checks by the events that they are asked at.

    Args:
        known: beginnings of file names whose code is trusted.
        tests: file names that the tests are compiled with.
        is_candidate: this and the others are the watch's own.
    """
    decode, open_file, function_kind, code_kind = os.fsdecode, open, type(code_checks), type(code_checks.__code__)
    external = sys.modules["_frozen_importlib_external"]
    file_loader, loaders = external.FileLoader, (external.SourceFileLoader, external.SourcelessFileLoader)
    get_data = file_loader.__dict__["get_data"]
    class_dict, mro = type.__dict__["__dict__"].__get__, type.__dict__["__mro__"].__get__

    def is_not_its_own(function: Any) -> bool:
        name = function.__code__.co_filename
        return name in tests or name.startswith(known)

    def rewrites(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if arguments[1] in ("__class__", "__bases__"):
            return "makes something of the tests another kind" if is_of_tests(arguments[0]) and asks(frame) else None
        if arguments[1] not in _CODE_ATTRIBUTES or type(arguments[0]) is not function_kind or not asks(frame):
            return None
        if any(has_known_name(value) for value in arguments[2:]):
            return "makes code that passes for the library's"
        return "rewrites a function that is not its own" if is_not_its_own(arguments[0]) else None

    def asks(frame: FrameType | None) -> bool:
        """Whether it is the candidate, or what it called of Python's own library, and not a library of others."""
        return is_candidate(frame) or (asked_by(frame) is None and stands_behind(frame, set()))

    def is_of_tests(value: Any) -> bool:
        """Whether it is a class that holds functions of the tests, or one of its objects."""
        kinds = mro(value if issubclass(type(value), type) else type(value))
        held = [part for kind in kinds for part in class_dict(kind).values() if type(part) is function_kind]
        return any(part.__code__.co_filename in tests for part in held)

    def compiles(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if not isinstance(arguments[1], (str, bytes)) or not decode(arguments[1]).startswith((*known, *tests)):
            return None
        own = own_name(frame) is not None or is_frozen(frame)
        passes = is_candidate(frame) or (own and stands_behind(frame, set()) and not is_file(arguments))
        return "makes code that passes for the library's" if passes else None

    def is_frozen(frame: FrameType | None) -> bool:
        return frame is not None and frame.f_code.co_filename.startswith("<frozen")

    def is_file(arguments: tuple[Any, ...]) -> bool:
        """Whether it is that file's text which is compiled, as an import does."""
        try:
            with open_file(arguments[1], "rb") as file:
                return file.read() == bytes(arguments[0])
        except (OSError, TypeError):
            return False

    def renames(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        ours = None if frame is None else frame.f_code.co_filename  # of the functions that tell us
        while frame is not None and frame.f_code.co_filename == ours:
            frame = frame.f_back
        if frame is not None and is_frozen(frame):
            frame = frame.f_back
        into = decode(arguments[0]).startswith((*known, *tests))
        return "makes code that passes for the library's" if into and is_candidate(frame) else None

    def loads(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        if not is_candidate(frame) and (not is_frozen(frame) or reads_file(frame) or not stands_behind(frame, set())):
            return None
        data = bytes(arguments[0])
        passes = any(prefix.encode() in data for prefix in (*known, *tests))
        return "makes code that passes for the library's" if passes else None

    def reads_file(frame: FrameType | None) -> bool:
        """Whether an import has it done, with what its own loader has read."""
        asked = None if frame is None else frame.f_back
        if asked is None or not is_frozen(asked) or asked.f_code.co_name != "get_code":
            return False
        return type(asked.f_locals.get("self")) in loaders and class_dict(file_loader).get("get_data") is get_data

    def runs(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
        passes = is_candidate(frame) and has_known_name(arguments[0])
        return "makes code that passes for the library's" if passes else None

    def has_known_name(code: Any) -> bool:
        return type(code) is code_kind and code.co_filename.startswith((*known, *tests))

    return {
        "object.__setattr__": rewrites,
        "compile": compiles,
        "marshal.loads": loads,
        **dict.fromkeys(("exec", "function.__new__"), runs),
        "parley.renamed_code": renames,
    }

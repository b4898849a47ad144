"""Functions of libraries that look at frames, and what they do with them."""

from __future__ import annotations

_KEEP_THEM = (
    *("unittest/result.py", "doctest.py", "warnings.py", "collections/__init__.py", "typing.py", "enum.py"),
    *("dataclasses.py", "subprocess.py", "contextlib.py", "asyncio/events.py", "asyncio/futures.py"),
    *("asyncio/streams.py", "asyncio/coroutines.py", "asyncio/format_helpers.py", "concurrent/futures/process.py"),
    *("multiprocessing/process.py", "threading.py"),
)
FRAMES_STAY = {
    "traceback.py": {"walk_tb", "walk_stack"},
    "inspect.py": {
        "currentframe",
        "stack",
        "trace",
        "getouterframes",
        "getinnerframes",
        "_getmembers",
        "getmembers",
        "getattr_static",
    },
    "logging/__init__.py": {"<lambda>", "currentframe"},
    "asyncio/base_tasks.py": {"_task_get_stack"},
    "types.py": {"gi_frame", "cr_frame"},
    **{name: set[str]() for name in _KEEP_THEM},
}
"""Library files that may look at frames, each with those of its functions that hand them to whoever calls."""
KEEPERS = {
    "find_stack_level": "/pandas/util/_exceptions.py",
    "_": "/sympy/multipledispatch/core.py",
    "lambdify": "/sympy/utilities/lambdify.py",
    "make_decorator": "/tensorflow/python/util/tf_decorator.py",
    "set_filename_and_line_from_caller": "/tensorflow/python/framework/traceable_stack.py",
    "__init__": "/tensorflow/python/util/tf_stack.py",
}
"""Functions of others that look at frames and hand none on, with their files."""
TAKE_FRAMES = (
    *("currentframe", "stack", "getouterframes", "getframeinfo", "getfile", "getsourcefile", "findsource", "getmodule"),
    *("ismodule", "isclass", "ismethod", "isfunction", "istraceback", "isframe", "iscode"),
)
"""Functions of `inspect` that see the frames which those ask it for: they must be its own."""
FRAME_READERS = {
    "_extract_from_extended_frame_gen",
    "extended_frame_gen",
    "findCaller",
    "_task_print_stack",
    "_get_code_position",
}
"""Functions that take frames from the above and make text of them."""
CODE_READERS = {
    *("_signature_from_function", "_signature_from_callable", "_signature_is_functionlike", "unwrap", "isfunction"),
    *("_has_code_flag", "_format_coroutine"),
}

HAND_ON = ("traceback.py", "inspect.py", "warnings.py", "doctest.py", "linecache.py", "logging/", "asyncio/")
"""Library files, or beginnings of their names, with functions that hand frames to others: those must be a library's too."""
GIVERS = ("/_pytest/_code/", "/tblib/", "/beartype/_util/func/")
"""Parts of file names of others whose functions hand the frames that they look at to whoever calls."""

"""The warm interpreter of the zygote: what it has loaded, how a fork of it looks like a fresh one, and how that ends.

Standard library only, and no class: see `zygote.py`.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_GUARD = b'\nif __name__ == "__main__":'


def load_scripts(own: str) -> dict[str, types.ModuleType]:
    """The scripts beside `own`, itself left out, that can be run by calling their `main`, by path."""
    folder = os.path.dirname(own)
    scripts: dict[str, types.ModuleType] = {}
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        if not name.endswith(".py") or path == own:
            continue
        with open(path, "rb") as file:
            source = file.read()
        if _GUARD in source:
            module = types.ModuleType(name.removesuffix(".py"))
            module.__file__ = path
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
            scripts[path] = module
    return scripts


def preload(modules: tuple[str, ...], folders: tuple[str, ...]) -> None:
    """Import what is there. Raises RuntimeError where that starts a thread: no thread survives a fork."""
    path = list(sys.path)
    sys.path.extend(folders)
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # pyarrow's allocator; pandas loads it
    for name in modules:
        try:
            __import__(name)
        except ImportError:
            continue
    os.environ.pop("JE_ARROW_MALLOC_CONF")
    sys.path[:] = path
    sys.path_importer_cache.clear()
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(f"loading {', '.join(modules)} starts {threads - 1} threads, which no fork carries over")


def as_interpreter(script: types.ModuleType, argv: tuple[str, ...], environment: dict[str, str]) -> None:
    """Look like an interpreter that has just been started with that script."""
    gc.enable()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = argv
    sys.modules["__main__"] = script
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # its state is the zygote's otherwise, the same in every run


def end(code: int) -> NoReturn:
    """End as an interpreter does: threads joined, `atexit` run, streams flushed. Objects are not torn down."""
    for step in (join_threads, atexit._run_exitfuncs, sys.stdout.flush, sys.stderr.flush):
        try:
            step()
        except BaseException:  # noqa: BLE001 - it does not change the exit status, as in an interpreter's end
            traceback.print_exc()
    os._exit(code & 0xFF)


def join_threads() -> None:
    """Wait for the threads that are no daemons, as an interpreter does at its end."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()

"""Warm interpreter of the zygote: loading modules, measuring, and imitating a fresh interpreter.

A fork looks like a fresh interpreter, and ends like one. Standard library only, and no class: see
`zygote.py`.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import os
import sys
import traceback
import types

from child_isolation import use_huge_pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

_PAGE = os.sysconf("SC_PAGE_SIZE")
_FIRST_HIGH_FD = 64
_hooks: list[dict[str, Callable[[], object]]] = []
_GUARD = b'\nif __name__ == "__main__":'


def load_scripts(own: str) -> dict[str, types.ModuleType]:
    """Load the scripts beside `own` that define `main`, by path."""
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
    """Import the modules that are installed.

    Raises:
        RuntimeError: a module starts a thread, which no fork would copy.
    """
    path = list(sys.path)
    sys.path.extend(folders)
    # The variable is for pyarrow's allocator. pandas loads pyarrow.
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    register, os.register_at_fork = os.register_at_fork, _keep_hook
    for name in modules:
        try:
            __import__(name)
        except ImportError:  # Not installed. A program that needs it reports so itself.
            continue
    os.register_at_fork = register
    os.environ.pop("JE_ARROW_MALLOC_CONF")
    sys.path[:] = path
    sys.path_importer_cache.clear()
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(
            f"loading {', '.join(modules)} starts {threads - 1} threads, which no fork carries over"
        )


def settle() -> None:
    """Make forks cheap.

    A fork then collects no garbage among the current objects, and writes to none of them.
    """
    gc.collect()
    gather_names()
    gc.freeze()
    gc.disable()
    use_huge_pages()


def gather_names() -> None:
    """Put the names of loaded modules side by side.

    Each run looks through them all, and would otherwise copy a page for every fourth.
    """
    # These fill the holes that new texts would go to.
    filling = [bytes(size) for size in range(16, 128, 16) for _ in range(10_000)]
    modules = {name.encode().decode(): module for name, module in sys.modules.items()}
    sys.modules.clear()
    sys.modules.update(modules)
    del filling


def address_space() -> int:
    """Return the bytes of this process's address space."""
    return _memory()[0] * _PAGE


def resident() -> int:
    """Return the bytes of memory that this process uses, without the files that it maps."""
    _, used, shared = _memory()
    return (used - shared) * _PAGE


def _memory() -> tuple[int, int, int]:
    statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    size, used, shared, *_ = read_all(statm).split()
    return int(size), int(used), int(shared)


def read_all(descriptor: int) -> bytes:
    """Read the rest of a file and close it. Raises OSError.

    A file object would copy more pages of a fork.
    """
    pieces: list[bytes] = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    os.close(descriptor)
    return b"".join(pieces)


def others() -> int:
    """Return the number of unexpected children and threads."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return len(os.listdir("/proc/self/task")) - 1
    return 1


def place_descriptors(low: Sequence[int], upper: Sequence[int]) -> list[int]:
    """Move `low` to 0, 1, 2 and so on, and `upper` high up; close all others.

    Returns:
        The new numbers of `upper`.
    """
    high = [
        fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_HIGH_FD)
        for descriptor in (*low, *upper)
    ]
    for target, descriptor in enumerate(high[: len(low)]):
        os.dup2(descriptor, target)
    first = len(low)
    for descriptor in high[len(low) :]:  # Each number is above the one before.
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    return high[len(low) :]


def _keep_hook(**hooks: Callable[[], object]) -> None:
    """Replace `os.register_at_fork` while modules load, and store the hooks.

    After a fork of the zygote, with its one thread, hooks have nothing to fix, and running them
    would copy some two hundred pages in each run. The program's own forks need them.
    """
    _hooks.append(hooks)


def as_interpreter(
    script: types.ModuleType, argv: tuple[str, ...], environment: dict[str, str]
) -> None:
    """Look like an interpreter that was just started with that script."""
    gc.enable()
    for hooks in _hooks:
        os.register_at_fork(**hooks)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = argv
    sys.modules["__main__"] = script
    seed_random_states()


def seed_random_states() -> None:
    """Reseed the random states. Otherwise they would be the zygote's, equal in every run."""
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:  # Without a number this takes long.
        sys.modules["numpy.random"].seed(int.from_bytes(os.urandom(4), "big"))


def end(code: int) -> NoReturn:
    """End as an interpreter does: threads joined, `atexit` run, streams flushed.

    Objects are not torn down.
    """
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

"""Functions that prepare the zygote's interpreter, and that make a fork behave like a fresh one.

The module uses only the standard library and defines no class, for the reasons in `zygote.py`.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import linecache
import os
import site
import sys
import traceback
import types

from child_isolation import read_all
from fork_memory import fill_free_blocks, release_free_memory, use_huge_pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

_PAGE = os.sysconf("SC_PAGE_SIZE")
_FIRST_HIGH_FD, _REHEARSALS = 64, 20
_environment = {
    # bubblewrap sets these two, and no run has them.
    name: value
    for name, value in os.environ.items()
    if name not in ("PWD", "LD_BIND_NOW")
}
_hooks: list[dict[str, Callable[[], object]]] = []
_GUARD = b'\nif __name__ == "__main__":'


def load_scripts(folder: str) -> dict[str, types.ModuleType]:
    """Load the scripts of a folder that define `main`, and return them by path."""
    scripts: dict[str, types.ModuleType] = {}
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        if not name.endswith(".py"):
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
    # The variable keeps pyarrow's allocator, which pandas loads, from starting threads.
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    register, os.register_at_fork = os.register_at_fork, _keep_hook
    for name in modules:
        try:
            __import__(name)
        # The module is not installed. A program that needs it fails with its own ImportError.
        except ImportError:
            continue
    os.register_at_fork = register
    os.environ.pop("JE_ARROW_MALLOC_CONF")
    sys.path[:] = path
    sys.path_importer_cache.clear()
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(
            f"loading {', '.join(modules)} starts {threads - 1} threads, which a fork does not copy"
        )


def settle() -> None:
    """Make forks cheap, and do what every run would do.

    The garbage collector of a fork then ignores the current objects, and does not write to them.
    """
    os.environ.clear()  # A library may have changed it.
    os.environ.update(_environment)
    site.setquit()
    site.setcopyright()
    site.sethelper()
    _rehearse()
    gc.collect()
    release_free_memory()
    gc.freeze()
    gc.disable()
    fill_free_blocks()
    use_huge_pages()


def _rehearse() -> None:
    """Report a sample failure often enough that the interpreter specialises the code.

    Otherwise each run would do so, and copy the pages of that code.
    """
    for _ in range(_REHEARSALS):
        try:
            exec(compile("no_such_name", "<sample>", "exec"), {})
        except NameError as error:
            traceback.format_exception(type(error), error, error.__traceback__)
        linecache.clearcache()


def address_space() -> int:
    """Return the bytes of this process's address space."""
    return _memory()[0] * _PAGE


def resident() -> int:
    """Return the bytes of memory that this process uses, excluding mapped files."""
    _, used, shared = _memory()
    return (used - shared) * _PAGE


def _memory() -> tuple[int, int, int]:
    statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    size, used, shared, *_ = read_all(statm).split()
    return int(size), int(used), int(shared)


def others() -> int:
    """Return the number of children and threads that this process should not have."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return len(os.listdir("/proc/self/task")) - 1
    return 1


def place_descriptors(low: Sequence[int], upper: Sequence[int]) -> list[int]:
    """Move descriptors `low` to 0, 1, 2 and so on, and `upper` to high numbers; close all others.

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
    for descriptor in high[len(low) :]:  # Each number is greater than the previous one.
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    return high[len(low) :]


def _keep_hook(**hooks: Callable[[], object]) -> None:
    """Replace `os.register_at_fork` while modules load, and store the hooks.

    The zygote has only one thread, so after its forks the hooks have nothing to repair, and running
    them would copy about 200 memory pages in each run. Only the program's own forks need the hooks.
    """
    _hooks.append(hooks)


def as_interpreter(script: types.ModuleType, argv: tuple[str, ...]) -> None:
    """Make this process look like an interpreter that was just started with `script`."""
    gc.enable()
    for hooks in _hooks:
        os.register_at_fork(**hooks)
    sys.argv[:] = argv
    sys.modules["__main__"] = script
    seed_random_states()


def seed_random_states() -> None:
    """Reseed the random states, which would otherwise be equal in every run."""
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:  # Without an argument this call takes long.
        sys.modules["numpy.random"].seed(int.from_bytes(os.urandom(4), "big"))


def end(code: int) -> NoReturn:
    """End this process as an interpreter does: join threads, run `atexit`, flush streams.

    Objects are not destroyed.
    """
    for step in (join_threads, atexit._run_exitfuncs, sys.stdout.flush, sys.stderr.flush):
        try:
            step()
        except BaseException:  # noqa: BLE001 - it does not change the exit status, as in an interpreter's end
            traceback.print_exc()
    os._exit(code & 0xFF)


def join_threads() -> None:
    """Wait for the threads that are not daemons, as an interpreter does when it ends."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()

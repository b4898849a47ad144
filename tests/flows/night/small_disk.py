"""A small disk of its own for commands, which fills up at a named moment.

It is a tmpfs in a mount namespace that a child process holds: nothing of it is left on this machine
when that child ends, and it ends with the test, however that ends.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.flows.drivers import ROOT
from tests.flows.parley_command import LIMIT_S, Done, command, environment

BALLOON = "balloon"
FILLER = '''
"""Fills the disk of PARLEY_HOME whenever a process of Parley's comes to the moment that PARLEY_FILL_AT names."""
import os, sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder

AT, AFTER = os.environ.get("PARLEY_FILL_AT"), int(os.environ.get("PARLEY_FILL_AFTER", "0"))
seen = []

def fill():
    seen.append(None)
    if len(seen) <= AFTER:
        return
    for size in (2**20, 2**12, 1):
        try:
            with open(os.path.join(os.environ["PARLEY_HOME"], "balloon"), "ab", buffering=0) as file:
                while file.write(bytes(size)) == size:
                    pass
        except OSError:
            pass  # full for that size: the next one fills what is left

def before(owner, name, is_moment):
    plain = getattr(owner, name)
    def wrapped(*arguments, **keys):
        if is_moment(*arguments, **keys):
            fill()
        return plain(*arguments, **keys)
    setattr(owner, name, wrapped)

def part_of(wanted):
    return lambda lake, table, *_, **__: table == wanted

MOMENTS = {
    "stage": ("tasks.storage.parquet_store", lambda m: before(m.Lake, "_write_part", part_of("dialogs"))),
    "shard": ("tasks.storage.parquet_store", lambda m: before(m.Lake, "_write_part", part_of("episodes"))),
    "journal": ("tasks.storage.paid_calls", lambda m: before(m.Calls, "put", lambda *_, **__: True)),
    "publish": ("warehouse.lake", lambda m: before(m, "list_lake", lambda _: True)),
}

class Wrapping(Loader):
    def __init__(self, plain):
        self.plain = plain
    def create_module(self, spec):
        return self.plain.create_module(spec)
    def exec_module(self, module):
        self.plain.exec_module(module)
        MOMENTS[AT][1](module)

class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != MOMENTS[AT][0]:
            return None
        spec = PathFinder.find_spec(name, path)
        spec.loader = Wrapping(spec.loader)
        return spec

if AT:
    sys.meta_path.insert(0, Finder())
'''


@dataclass(frozen=True)
class SmallDisk:
    """Where commands find it, and where this process does."""

    holder: int
    mount: Path
    injected: Path

    @property
    def home(self) -> Path:
        """As the commands name it."""
        return self.mount / "home"

    @property
    def seen(self) -> Path:
        """The same folder, as this process reaches it."""
        return Path(f"/proc/{self.holder}/root") / self.home.relative_to("/")

    def parley(self, *arguments: object, fill_at: str | None = None, after: int = 0) -> Done:
        """Run a command to its end, with the disk full from the named moment on (after so many
        times that it came).
        """
        environ = environment(self.home) | {"PYTHONPATH": f"{self.injected}{os.pathsep}{ROOT}"}
        environ |= {"PARLEY_FILL_AT": fill_at, "PARLEY_FILL_AFTER": str(after)} if fill_at else {}
        enter = ("nsenter", f"--mount=/proc/{self.holder}/ns/mnt", f"--wd={self.mount}")
        done = subprocess.run(
            (*enter, *command(*arguments)),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=environ,
            timeout=LIMIT_S,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def free(self) -> int:
        found = os.statvfs(self.seen.parent)
        return found.f_bavail * found.f_frsize

    def fill(self, but: int) -> None:
        """Take all but so many bytes."""
        self.seen.mkdir(exist_ok=True)
        with (self.seen / BALLOON).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.free() - but)

    def make_room(self) -> None:
        (self.seen / BALLOON).unlink()


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """A disk of that size, empty. Skips where mounting is not allowed."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip(
            "a disk of a small size is a tmpfs in a mount namespace: root and util-linux "
            "(unshare, nsenter) are needed"
        )
    mount, injected = folder / "disk", folder / "injected"
    for path in (mount, injected):
        path.mkdir()
    (injected / "sitecustomize.py").write_text(FILLER)
    script = f'mount -t tmpfs -o size={megabytes}m parley-test "$0" && echo mounted && exec cat'
    holder = subprocess.Popen(
        ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(mount)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != "mounted\n":
            pytest.skip(f"no tmpfs can be mounted here: {holder.communicate()[1].strip()}")
        yield SmallDisk(holder.pid, mount, injected)
    finally:
        holder.communicate()

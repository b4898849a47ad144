"""Loaded by Python at its start wherever this folder is on PYTHONPATH: kills a process of Parley's
at a named point, once.

`PARLEY_CRASH_PLAN` names a folder with `plan.json`, a list of {"point", "victim", "nth",
"signals"}. A kill is armed when the one before it has happened, and happens at the n-th time since
then that a process reaches the point. `<number>.json` is its mark, made by O_EXCL before the signal
is sent. The product knows nothing of this: its functions are wrapped after their import.
"""

import json
import os
import signal
import sys
import threading
import time
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder

PLAN, DRIVER = "PARLEY_CRASH_PLAN", "PARLEY_CRASH_DRIVER"


class Kills:
    """The plan, as seen from one process."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
            self.plan = json.load(file)
        self.hits = [0] * len(self.plan)
        self.lock = threading.RLock()

    def mark(self, number):
        return os.path.join(self.folder, f"{number}.json")

    def due(self, point):
        """Number of the kill that is due here, or None."""
        with self.lock:
            armed = next(
                (n for n in range(len(self.plan)) if not os.path.exists(self.mark(n))), None
            )
            if armed is None or self.plan[armed]["point"] != point:
                return None
            self.hits[armed] += 1
            return armed if self.hits[armed] == self.plan[armed].get("nth", 1) else None

    def reach(self, point, program=None):
        """Kill the planned process if it is time; `program` is the pid of a sandboxed program's
        bwrap.
        """
        number = self.due(point)
        if number is not None:
            self.kill(number, program)

    def kill(self, number, program=None):
        victim, driver = self.plan[number]["victim"], int(os.environ[DRIVER])
        groups = {"group": [-driver], "timeout": [driver, -driver]}
        pid = {"worker": os.getpid(), "server": _server(), "bwrap": program}.get(victim, driver)
        said = json.dumps({**self.plan[number], "pid": pid, "at": time.monotonic()})
        # else another thread could mark the next kill and die of this one before it sends its
        # signal
        with self.lock:
            try:
                descriptor = os.open(self.mark(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                return
            os.write(descriptor, said.encode())
            orders = [
                (target, each)
                for target in groups.get(victim, [pid])
                for each in self.plan[number]["signals"]
            ]
            sending = threading.Thread(target=_send, args=(orders, driver))
            # so that a signal's handler in this thread does not keep the next from being sent
            sending.start()
            sending.join()
        if victim in ("driver", *groups):
            _stay(driver)


def _stay(driver):
    """Stay at this very point until the driver has ended, a minute at most: a process follows it,
    even one that just begins.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            os.kill(driver, 0)
        except ProcessLookupError:
            time.sleep(2)  # its own watch ends it sooner where it runs already
            os._exit(1)


def _send(orders, driver):
    for pid, number in orders:
        os.kill(pid, number)
        while number != signal.SIGKILL and _is_pending(driver, number):
            time.sleep(0.005)  # two at once would be one


def _is_pending(pid, number):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            masks = [
                int(line.split()[1], 16) for line in file if line.startswith(("SigPnd", "ShdPnd"))
            ]
    except OSError:
        return False
    return any(mask >> (number - 1) & 1 for mask in masks)


def _server():
    try:
        with open(
            os.path.join(os.environ["PARLEY_HOME"], "prefect", "server.json"), encoding="utf-8"
        ) as file:
            return json.load(file)["pid"]
    except (OSError, KeyError, ValueError):
        return None


def _wrap_dialogue_calls(module, kills):
    add = module.EpisodeCalls.add

    def wrapped(self, step, **keys):
        add(self, step, **keys)
        if step.role == "assistant":
            kills.reach("between turns")

    module.EpisodeCalls.add = wrapped


def _wrap_lake(module, kills):
    write_part = module.Lake._write_part

    def wrapped(self, table, *arguments, **keys):
        if table == "episodes":
            kills.reach("between journal and shard")
        path = write_part(self, table, *arguments, **keys)
        if table == "scores":
            kills.reach("scores written")
        return path

    module.Lake._write_part = wrapped


def _wrap_supervision(module, kills):
    start = module._start

    def wrapped(*arguments):
        process = start(*arguments)
        kills.reach("program started", process.pid)
        return process

    module._start = wrapped


def _wrap_zygote(module, kills):
    start_run = module.Zygote.start_run

    def wrapped(self, descriptors):
        begun = start_run(self, descriptors)
        kills.reach("program started", self._process.pid)
        return begun

    module.Zygote.start_run = wrapped


def _wrap_copying(module, kills):
    copy_file = module.copy_file

    def wrapped(source, target):
        copy_file(source, target)
        number = kills.due("warehouse copied")
        if number is not None:
            os.truncate(target, os.path.getsize(target) // 2)  # as far as a copy had come
            kills.kill(number)

    module.copy_file = wrapped


def _wrap_board(module, kills):
    stage = module.Board.stage

    def wrapped(self, title, name, *counted, **units):
        stage(self, title, name, *counted, **units)
        kills.reach(f"stage {name}")

    module.Board.stage = wrapped


WRAPPERS = {
    "flows.night.reporting.progress": _wrap_board,
    "tasks.storage.journaling.dialogue_calls": _wrap_dialogue_calls,
    "tasks.storage.parquet_store": _wrap_lake,
    "sandbox.host.supervision": _wrap_supervision,
    "sandbox.backends.zygote.process": _wrap_zygote,
    "warehouse.publication.copying": _wrap_copying,
}


class AfterImport(MetaPathFinder):
    """Wraps a module's functions as soon as it is imported."""

    def __init__(self, kills):
        self.kills = kills

    def find_spec(self, name, path=None, target=None):
        if name not in WRAPPERS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Wrapping(spec.loader, WRAPPERS[name], self.kills)
        return spec


class Wrapping(Loader):
    def __init__(self, loader, wrapper, kills):
        self.loader, self.wrapper, self.kills = loader, wrapper, kills

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        self.wrapper(module, self.kills)


def _wrap_files(kills):
    replace = os.replace

    def wrapped_replace(source, target, **options):
        place = str(target)
        name = next(
            (
                n
                for n, mark in (("shard", "/episodes/"), ("verdicts", "/test_verdicts/"))
                if mark in place
            ),
            None,
        )
        name = {"warehouse.duckdb": "warehouse", "server.json": "server"}.get(
            os.path.basename(place), name
        )
        if name:
            kills.reach(f"before {name} rename")
        replace(source, target, **options)
        if name:
            kills.reach(f"after {name} rename")

    os.replace = wrapped_replace


if os.environ.get(PLAN):
    os.environ.setdefault(DRIVER, str(os.getpid()))
    with open(os.path.join(os.environ[PLAN], "pids"), "a", encoding="ascii") as _file:
        _file.write(f"{os.getpid()}\n")
    _kills = Kills(os.environ[PLAN])
    _wrap_files(_kills)
    if "--multiprocessing-fork" in sys.orig_argv:
        _kills.reach("worker begins")
    sys.meta_path.insert(0, AfterImport(_kills))

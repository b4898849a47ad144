"""What two homes must have in common: every table of the warehouse row by row, less what may
differ.
"""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

import psutil

from sandbox.host.abandoned import start_time
from sandbox.host.resource_limits import _writable_parent
from warehouse.connect import connect, identifier

TIMES = frozenset(
    {"started_at", "finished_at", "checked_at", "first_seen", "latency_s", "duration_s"}
)
"""Clocks and how long things took."""
ATTEMPTS = frozenset({"attempt", "part"})
"""An episode that a kill ended is taken up as a further attempt, and a part's name is made of
episodes and attempts.
"""
INVOCATION = frozenset(
    {"night_id", "model_calls", "state_digest", "state", "work", "endpoints", "profiles"}
)
"""Of the latest invocation: which it was, what it did, paid and found out of endpoints, names and
sizes of the parts it found.
"""
MAY_DIFFER = TIMES | ATTEMPTS | INVOCATION
SKIPPED = frozenset({"nights", "night_work", "stage_times", "failed_runs", "_loaded_parts"})
"""A row an invocation, what it did, and the list of parts by name."""

Tables = Mapping[str, tuple[str, ...]]
"""table -> its rows as JSON, sorted."""


def tables(home: Path) -> Tables:
    """All that a home's warehouse shows and that two equal nights must agree on."""
    connection = connect(home)
    try:
        names = [
            name
            for (name,) in connection.execute(
                "select table_name from duckdb_tables() union all select view_name from "
                "duckdb_views() where not internal"
            ).fetchall()
        ]
        found: dict[str, tuple[str, ...]] = {}
        for name in sorted(set(names) - SKIPPED):
            columns = [
                row[0] for row in connection.execute(f"describe {identifier(name)}").fetchall()
            ]
            kept = ", ".join(identifier(column) for column in columns if column not in MAY_DIFFER)
            rows = connection.execute(
                f"select to_json(t)::varchar as line from (select {kept} from "
                f"{identifier(name)}) as t"
            )
            found[name] = tuple(sorted(line for (line,) in rows.fetchall()))
        return found
    finally:
        connection.close()


def differences(one: Tables, other: Tables) -> list[str]:
    """The tables that differ, each with a row that only one of them has."""
    said = []
    for name in sorted({*one, *other}):
        left, right = one.get(name, ()), other.get(name, ())
        if left != right:
            example = sorted(set(left) ^ set(right))[:1]
            said.append(f"{name}: {len(left)} and {len(right)} rows, for example {example}")
    return said


def leftovers(home: Path, temporary: Path, pids: set[int]) -> list[str]:
    """Files, locks and cgroups that killed processes left and the next invocation did not clear.

    Args:
        temporary: the processes' TMPDIR.
        pids: of all processes that there were.
    """
    files = [
        p
        for p in home.rglob("*")
        if p.name.startswith(".writing-") or ".next" in p.name or p.suffix == ".part"
    ]
    files += [p for p in (home / "journal").rglob("*") if p.is_file()]
    files += [p for p in (home / "dask").rglob("*") if p.is_file() and p.suffix != ".lock"]
    slots = temporary / f"parley-slots-{os.geteuid()}"
    files += [p for p in temporary.iterdir() if p != slots]
    locks = [p for p in (*home.rglob("*.lock"), *slots.glob("slot-*")) if _is_held(p)]
    return (
        [f"file {p}" for p in files]
        + [f"held lock {p}" for p in locks]
        + [f"cgroup {p}" for p in _cgroups(pids)]
    )


def _is_held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _cgroups(pids: set[int]) -> list[Path]:
    place = _writable_parent()
    if place is None:
        return []
    made = [(folder, *folder.name.split("-")[1:3]) for folder in place[0].glob("parley-*")]
    return [
        folder
        for folder, pid, start in made
        if pid.isdigit() and int(pid) in pids and start_time(int(pid)) != start
    ]


def memory_of(process: psutil.Process) -> int:
    """Resident bytes; 0 where it has ended."""
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0

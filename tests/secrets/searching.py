"""Where a text may have got to: a home's files as bytes, its tables as rows, the processes of a
command while it runs.
"""

import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from warehouse.connect import connect, identifier


def in_files(home: Path, text: str) -> list[Path]:
    """Files that hold the text as it is."""
    return [
        path for path in home.rglob("*") if path.is_file() and text.encode() in path.read_bytes()
    ]


def in_parquet(home: Path, text: str) -> list[str]:
    """Parts of the lake, and columns, of which a value holds it: compressed bytes do not show
    it.
    """
    found = []
    for path in (home / "lake").rglob("*.parquet"):
        with pq.ParquetFile(path) as file:
            data = file.read()
        found += [
            f"{path} {name}" for name in data.column_names if text in str(data[name].to_pylist())
        ]
    return found


def in_warehouse(home: Path, text: str) -> list[str]:
    """Tables and views of the published file."""
    with closing(connect(home)) as warehouse:
        tables = warehouse.execute(
            "select table_name from information_schema.tables where table_catalog = 'warehouse'"
        ).fetchall()
        assert len(tables) > 20
        return [
            name
            for (name,) in tables
            if text in str(warehouse.execute(f"from {identifier(name)}").fetchall())
        ]


def in_sqlite(database: Path, text: str) -> list[str]:
    """Tables of a database, whatever its log still holds included."""
    with closing(sqlite3.connect(database)) as connection:
        tables = connection.execute(
            "select name from sqlite_master where type = 'table'"
        ).fetchall()
        assert len(tables) > 10
        return [
            name
            for (name,) in tables
            if text in str(connection.execute(f"select * from {identifier(name)}").fetchall())
        ]


class Watch:
    """Looks at all processes of a command, again and again until it ends."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._ended = threading.Event()
        self.seen: set[tuple[str, tuple[str, ...]]] = set()
        """Command line, and those of the variables it was started with that hold the text."""
        self.n_looks = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self, text: str) -> "Watch":
        self._text = text.encode()
        self._thread.start()
        return self

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(20)

    def _watch(self) -> None:
        while not self._ended.wait(0.1) and self._process.poll() is None:
            self.n_looks += 1
            for line, environment in self._processes():
                named = (
                    entry.partition(b"=")[0].decode()
                    for entry in environment.split(b"\0")
                    if self._text in entry
                )
                self.seen.add((line, tuple(sorted(named))))

    def _processes(self) -> Iterator[tuple[str, bytes]]:
        """The command line is read first: between fork and exec a process still shows its parent's
        environment.
        """
        try:
            family = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return
        for child in family:
            folder = Path(f"/proc/{child.pid}")
            try:
                yield (
                    (folder / "cmdline")
                    .read_bytes()
                    .replace(b"\0", b" ")
                    .decode("utf-8", "replace"),
                    (folder / "environ").read_bytes(),
                )
            except OSError:  # it has ended meanwhile
                continue

"""The command `parley` as a person types it: a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.flows.drivers import ROOT

LIMIT_S = 600
SAMPLE = ("run", "codeif.static", "--dataset-version", "sample", "--workers", "1")
"""One worker process: to start two is a good part of so small a run. Nights of crash, faults and configurations have two."""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        """What it printed, as JSON: it must have ended well."""
        assert self.code == 0, f"exit code {self.code}: {self.err}\n{self.out}"
        return json.loads(self.out)


def environment(home: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours with that home; the checkout is importable."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PARLEY_HOME": str(home), **(environ or {})}


def command(*arguments: object) -> list[str]:
    """How the command is started, here without an installation."""
    return [sys.executable, "-P", "-m", "flows.cli", *map(str, arguments)]


def parley(
    home: Path,
    *arguments: object,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit_s: float = LIMIT_S,
) -> Done:
    """Run it to its end."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(home, environ),
        cwd=cwd or home.parent,
        timeout=limit_s,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


@contextmanager
def started(home: Path, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """The command as a process; killed with the block if it still runs."""
    process = subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(home),
        cwd=home.parent,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(home: Path, sql: str) -> list[dict[str, Any]]:
    """Rows of a query on the warehouse."""
    return parley(home, "sql", sql, "--json").json()

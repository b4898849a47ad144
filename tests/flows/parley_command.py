"""The command `parley`: in this process, whose imports it finds done, or as a person types it, a
process of its own.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from tests.flows.drivers import ROOT

LIMIT_S = 600
SAMPLE = ("run", "codeif.static", "--dataset-version", "sample", "--workers", "1")
"""One worker process: to start two is a good part of so small a run.

Nights of crash, faults and configurations have two.
"""
STREAMS = tuple(
    open(number, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    for number in (1, 2)
)
"""What a command in this process prints on. They stay open, since its loggers keep them."""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        """What it printed, as JSON: it must have ended well."""
        assert self.code == 0, f"exit code {self.code}: {self.err}\n{self.out}"
        return json.loads(self.out)


PROFILED = {"PYTHONPROFILEIMPORTTIME": "1"}
"""Variables with which a command says what it imports."""
_IMPORTED = re.compile(r"^import time:\s+\d+ \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)


def imported(done: Done) -> set[str]:
    """Packages of which a `PROFILED` command imported a part: one only looked for is listed as
    well. It must have ended well.
    """
    assert done.code == 0, done.err
    return {name.partition(".")[0] for name in _IMPORTED.findall(done.err) if "." in name}


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
) -> Done:
    """Run it to its end in this process: the same entry point, arguments, variables, folder, exit
    code and output.

    Its workers and sandboxes are processes as always. Tests of its start, its imports, signals and
    time use `parley_process`.
    """
    from flows.cli.app import main
    from sandbox.backends.zygote.pool import close_idle
    from warehouse.checks import warm

    warm()  # once for all commands of this process, each of which would start a process for it
    with (
        _in_place_of_a_process(arguments, environment(home, environ), cwd or home.parent),
        _printing_into_files() as files,
    ):
        with pytest.raises(SystemExit) as ending:
            main()
        close_idle()  # as the end of a process would
        out, err = map(_printed, files)
    return _checked(Done(int(ending.value.code or 0), out, err))


@contextmanager
def _in_place_of_a_process(
    arguments: tuple[object, ...], environ: Mapping[str, str], cwd: Path
) -> Iterator[None]:
    before = dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["parley", *map(str, arguments)])
        patch.chdir(cwd)
        os.environ.update(environ)
        try:
            yield
        finally:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)


@contextmanager
def _printing_into_files() -> Iterator[tuple[IO[bytes], ...]]:
    """Stdout and stderr are files, for children too, as `capture_output` sees what they print."""
    with ExitStack() as stack:
        files = tuple(stack.enter_context(tempfile.TemporaryFile()) for _ in STREAMS)
        for number, file in enumerate(files, start=1):
            earlier = os.dup(number)
            stack.callback(os.close, earlier)
            stack.callback(os.dup2, earlier, number)
            os.dup2(file.fileno(), number)
        out, err = STREAMS
        with redirect_stdout(out), redirect_stderr(err):
            yield files


def _printed(file: IO[bytes]) -> str:
    for stream in STREAMS:
        stream.flush()
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def parley_process(
    home: Path,
    *arguments: object,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit_s: float = LIMIT_S,
) -> Done:
    """Run it to its end in a process of its own."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(home, environ),
        cwd=cwd or home.parent,
        timeout=limit_s,
    )
    return _checked(Done(done.returncode, done.stdout, done.stderr))


def _checked(done: Done) -> Done:
    assert "Traceback" not in done.err, done.err
    return done


@contextmanager
def started(
    home: Path, *arguments: object, environ: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """The command as a process; killed with the block if it still runs."""
    process = subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(home, environ),
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

"""Factor that multiplies limits of CPU time on this machine. It is stored in PARLEY_HOME.

The factor is a power of two, and 1 on any machine of ordinary speed, so that limits are equal on
almost all machines: they are part of each verdict's identity. The run's record shows the limits
that were used. The factor is measured with reference solutions: programs with tests that must pass
on every machine. A measurement has their verdicts, and the CPU time of the slowest one.
"""

import gzip
import json
import os
import platform
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from sandbox.host.slots import alone, slot_count
from sandbox.interface import Sandbox
from sandbox.judging.runners.run import run_function_tests
from schemas.base import Frozen
from schemas.errors import ConfigError, SourceUnreadable
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict

_FIELDS = ("task_id", "prompt", "canonical_solution", "entry_point", "test")
_SUFFIXES = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True)
class Reference:
    """One reference solution. `tests` are statements."""

    task_id: str
    code: str
    tests: tuple[str, ...]


def bundled_references() -> tuple[Reference, ...]:
    """Return the bundled references: short ones, and one that takes a second or two."""
    text = files("sandbox.calibration").joinpath("references.jsonl").read_text(encoding="utf-8")
    return tuple(_reference(json.loads(line)) for line in text.splitlines())


def known_faults() -> frozenset[str]:
    """Return the ids of published tasks whose reference fails its tests through faulty data."""
    text = files("sandbox.calibration").joinpath("known_faults.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def read_references(path: Path) -> tuple[Reference, ...]:
    """Read the Python tasks of all JSONL files (plain or gzip) at a path.

    The path is a file, or a folder that is searched with its subfolders. A row is a task if it has
    `task_id`, `prompt`, `canonical_solution`, `entry_point` and `test`, and its `language` is
    Python or missing. Equal programs count once.

    Raises:
        SourceUnreadable: there is no such task.
    """
    places = (path,) if path.is_file() else sorted((*path.glob("*"), *path.glob("*/*")))
    rows = (
        row
        for place in places
        if place.name.endswith(_SUFFIXES) and place.is_file()
        for row in _rows(place)
    )
    references: dict[tuple[str, ...], Reference] = {}
    for row in rows:
        if all(isinstance(row.get(name), str) for name in _FIELDS) and row.get("language") in (
            None,
            "python",
        ):
            reference = _reference(row)
            references.setdefault((reference.code, *reference.tests), reference)
    if not references:
        raise SourceUnreadable(
            f"{path}: no reference solutions found. They are JSONL (or .jsonl.gz) files of "
            f"Python tasks with {', '.join(_FIELDS)}"
        )
    return tuple(references.values())


def _rows(place: Path) -> Iterator[dict[str, Any]]:
    try:
        with (
            gzip.open(place, "rt", encoding="utf-8")
            if place.name.endswith(".gz")
            else place.open(encoding="utf-8") as file
        ):
            for line in file:
                row = json.loads(line)
                if not isinstance(row, dict):
                    return
                yield row
    except (OSError, EOFError, ValueError) as error:
        raise SourceUnreadable(f"{place}: {error}") from error


def _reference(row: dict[str, Any]) -> Reference:
    return Reference(
        row["task_id"],
        row["prompt"] + row["canonical_solution"],
        (row["test"], f"check({row['entry_point']})"),
    )


_WIDE = Limits(cpu_s=60.0, wall_s=600.0)
"""Limits that are wide enough for measurements on a slow machine."""
_MEASURED_ALONE = 3
_SAY_CPU_TIME = (
    "raise AssertionError('cpu-time %.3f' % "
    "(lambda t: t[0] + t[1] + t[2] + t[3])(__import__('os').times()))"
)
_CPU_TIME = re.compile(r"cpu-time (\d+\.\d+)")


@dataclass(frozen=True)
class Measurement:
    """Verdicts and CPU time of the reference solutions.

    `failed` contains failures that no known fault of the data explains, with their verdicts.
    """

    n_references: int
    n_passed: int
    n_known_faults: int
    failed: tuple[str, ...]
    slowest: str
    """Task id of the slowest reference; empty if none passed."""
    slowest_cpu_s: float


def measure(sandbox: Sandbox, references: Sequence[Reference]) -> Measurement:
    """Run all references, several at once, to get their verdicts.

    The slowest references then run again, each alone on this host, to measure their CPU time.

    Raises:
        SandboxUnavailable: a program could not run at all.
    """
    with ThreadPoolExecutor(2 * slot_count()) as threads:
        verdicts = list(threads.map(lambda reference: _run(sandbox, reference), references))
    pairs = list(zip(references, verdicts, strict=True))
    passed = [(r, v) for r, v in pairs if v.outcome is Outcome.PASSED]
    others = [(r, v) for r, v in pairs if v.outcome is not Outcome.PASSED]
    faults = known_faults()
    longest = sorted(passed, key=lambda pair: -pair[1].duration_s)[:_MEASURED_ALONE]
    timed = sorted(
        ((_cpu_s(sandbox, reference), reference.task_id) for reference, _ in longest), reverse=True
    )
    slowest_cpu_s, slowest = timed[0] if timed else (0.0, "")
    return Measurement(
        n_references=len(pairs),
        n_passed=len(passed),
        n_known_faults=sum(reference.task_id in faults for reference, _ in others),
        failed=tuple(
            f"{r.task_id} ({v.outcome.value}: {_end(v)})"
            for r, v in others
            if r.task_id not in faults
        ),
        slowest=slowest,
        slowest_cpu_s=slowest_cpu_s,
    )


def _run(sandbox: Sandbox, reference: Reference, *more: str) -> ProgramVerdict:
    return run_function_tests(sandbox, reference.code, (*reference.tests, *more), _WIDE)


def _cpu_s(sandbox: Sandbox, reference: Reference) -> float:
    """Return the CPU seconds of the program with its tests and waited-for children.

    Return 0 if the time could not be read.
    """
    with alone():
        match = _CPU_TIME.search(_run(sandbox, reference, _SAY_CPU_TIME).detail)
    return float(match[1]) if match else 0.0


def _end(verdict: ProgramVerdict) -> str:
    lines = verdict.detail.strip().splitlines()
    return lines[-1][:200] if lines else "no reason"


FILE = "calibration.json"
_ROOM = 1.5
"""Safety margin: limits must allow this multiple of the slowest reference's measured CPU time,
because clock rates and other processes on a core change CPU times that much.
"""


class Calibration(Frozen):
    """Calibration of one machine with one sandbox."""

    machine: str
    sandbox: str
    factor: int = Field(ge=1)
    slowest: str
    """Id of the slowest reference."""
    slowest_cpu_s: float = Field(ge=0)
    n_references: int = Field(ge=1)
    n_passed: int = Field(ge=0)
    fingerprint: str
    """Fingerprint of the sandbox when it was calibrated. The calibration stays valid if the
    fingerprint changes.
    """
    measured_at: str
    """Time of the measurement: UTC, ISO 8601."""


def machine_name() -> str:
    """Return the architecture and processor model.

    Machines with the same name count as equally fast.
    """
    model = ""
    with suppress(OSError):  # /proc is missing on some systems. `platform` has a name then.
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "CPU part", "cpu model"):
                model = value.strip()
                break
    return f"{platform.machine()} {model or platform.processor() or 'unknown processor'}"


def needed_factor(slowest_cpu_s: float) -> int:
    """Return the smallest sufficient power of two by which to multiply the default limit.

    Args:
        slowest_cpu_s: CPU seconds of the slowest reference, 0 and up.
    """
    factor = 1
    while slowest_cpu_s * _ROOM > Limits().cpu_s * factor:
        factor *= 2
    return factor


def calibration_of(measured: Measurement, sandbox: Sandbox, measured_at: str) -> Calibration:
    """Return the calibration that follows from a measurement."""
    return Calibration(
        machine=machine_name(),
        sandbox=sandbox.name,
        factor=needed_factor(measured.slowest_cpu_s),
        slowest=measured.slowest,
        slowest_cpu_s=measured.slowest_cpu_s,
        n_references=measured.n_references,
        n_passed=measured.n_passed,
        fingerprint=sandbox.fingerprint(),
        measured_at=measured_at,
    )


def keep(calibration: Calibration, home: Path) -> Path:
    """Write the calibration into the folder PARLEY_HOME, and return the file.

    The calibration replaces an older one of the same machine and sandbox.
    """
    others = [
        c
        for c in _read(home)
        if (c.machine, c.sandbox) != (calibration.machine, calibration.sandbox)
    ]
    home.mkdir(parents=True, exist_ok=True)
    path, temporary = home / FILE, home / f".{FILE}.{os.getpid()}"
    temporary.write_text(
        json.dumps([c.model_dump() for c in (*others, calibration)], indent=1) + "\n",
        encoding="utf-8",
    )
    os.replace(temporary, path)
    return path


def find(home: Path, sandbox: str) -> Calibration | None:
    """Return this machine's calibration with the named sandbox; None if there is none.

    Raises:
        ConfigError: the calibration file does not contain calibrations.
    """
    here = machine_name()
    return next((c for c in _read(home) if (c.machine, c.sandbox) == (here, sandbox)), None)


def widened(limits: Limits, home: Path, sandbox: str) -> Limits:
    """Return the limits for this machine: CPU and wall-clock seconds times the calibrated factor.

    Raises:
        ConfigError: the calibration file does not contain calibrations.
    """
    calibration = find(home, sandbox)
    if calibration is None or calibration.factor == 1:
        return limits
    return limits.model_copy(
        update={
            "cpu_s": limits.cpu_s * calibration.factor,
            "wall_s": limits.wall_s * calibration.factor,
        }
    )


def _read(home: Path) -> list[Calibration]:
    path = home / FILE
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        return [Calibration.model_validate(item) for item in data]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, ValidationError) as error:
        raise ConfigError(
            f"{path} does not contain calibrations ({type(error).__name__}): "
            "remove the file, or run `parley doctor --calibrate`"
        ) from error

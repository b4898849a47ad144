"""The machine's factor, by which limits of CPU time are multiplied; kept in the home.

It is a power of two, and 1 on any machine of ordinary speed, so that limits, which are part of each verdict's identity, are the
same almost everywhere; where they are not, the run's own record shows the limits that held.
"""

import json
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from sandbox.calibration.measuring import Measured
from sandbox.interface import Sandbox
from schemas.base import Frozen
from schemas.errors import ConfigError
from schemas.run import Limits

FILE = "calibration.json"
_ROOM = 1.5
"""A reference may take so many times its measured CPU time: clock rates and neighbours on a core make that much difference."""


class Calibration(Frozen):
    """One machine in one sandbox."""

    machine: str
    sandbox: str
    factor: int = Field(ge=1)
    slowest: str
    """The reference that took longest."""
    slowest_cpu_s: float = Field(ge=0)
    n_references: int = Field(ge=1)
    n_passed: int = Field(ge=0)
    fingerprint: str
    """The sandbox's, as it was; another one does not make the figures wrong."""
    measured_at: str
    """UTC, ISO 8601."""


def machine_name() -> str:
    """Architecture and processor model: machines that share it are taken to be equally fast."""
    model = ""
    with suppress(OSError):  # not everywhere is /proc: `platform` has a name too
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "CPU part", "cpu model"):
                model = value.strip()
                break
    return f"{platform.machine()} {model or platform.processor() or 'unknown processor'}"


def needed_factor(slowest_cpu_s: float, limit_s: float = Limits().cpu_s) -> int:
    """The smallest power of two by which the limit leaves the slowest reference room.

    Args:
        slowest_cpu_s: CPU time that it took, 0 and up.
        limit_s: the usual limit of CPU time.
    """
    factor = 1
    while slowest_cpu_s * _ROOM > limit_s * factor:
        factor *= 2
    return factor


def calibration_of(measured: Measured, sandbox: Sandbox, measured_at: str) -> Calibration:
    """The calibration to keep of a measurement."""
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
    """Write it to the home, in place of an older one of the same machine and sandbox; returns the file."""
    kept = [
        c
        for c in _read(home)
        if (c.machine, c.sandbox) != (calibration.machine, calibration.sandbox)
    ]
    home.mkdir(parents=True, exist_ok=True)
    path, beside = home / FILE, home / f".{FILE}.{os.getpid()}"
    beside.write_text(
        json.dumps([c.model_dump() for c in (*kept, calibration)], indent=1) + "\n",
        encoding="utf-8",
    )
    os.replace(beside, path)
    return path


def find(home: Path, sandbox: str) -> Calibration | None:
    """The calibration of this machine in that sandbox; None where there is none.

    Raises:
        ConfigError: the file does not hold calibrations.
    """
    here = machine_name()
    return next((c for c in _read(home) if (c.machine, c.sandbox) == (here, sandbox)), None)


def widened(limits: Limits, home: Path, sandbox: str) -> Limits:
    """The limits that hold on this machine: CPU time, and with it time on the clock, times its factor.

    Raises:
        ConfigError: as `find`.
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
            f"{path} does not hold calibrations ({type(error).__name__}): remove the file, or type `parley doctor --calibrate`"
        ) from error

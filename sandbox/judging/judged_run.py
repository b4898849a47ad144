"""Run of one program and its tests through `harness/run_function_tests.py`.

The module decides which parts of the harness's report are trustworthy.
"""

import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from sandbox.host.python_environment import package_folders
from sandbox.host.slots import retried_alone, sandbox_fault
from sandbox.interface import Completed, Sandbox
from schemas.errors import HostShortage
from schemas.run import Limits
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict

LONGEST_DETAIL = 2000
"""Maximum number of characters of a verdict's detail. Of a longer text the end is kept."""
LONGEST_CASE_DETAIL = 8000
"""Maximum number of characters of a report on one test, or on code that does not compile. Of a
longer report the first and last lines are kept.
"""
_READY = b"ready\n"
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_LIBRARY = re.compile(r'(?<=\bFile ")/[^"\n]*/(?:python3\.\d+|site-packages|dist-packages)/')
_TESTS_LINE = re.compile(r'^( *)File "<tests>", line (\d+).*$', re.MULTILINE)
_HARMLESS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}
_HARMLESS |= {
    code: f"\\u{code:04x}"
    for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
}


@dataclass(frozen=True)
class Unit:
    """Smallest part of the tests that is run and judged separately, such as a test method."""

    name: str
    kind: Literal["statements", "module", "case"]
    text: str
    source: str
    """Text to which the line numbers in the unit's traceback refer."""


Records = Mapping[str, tuple[str, str]]
"""Map from label to (outcome, detail), as the runner reported them during the run."""


@dataclass(frozen=True)
class PythonTests:
    """Tests that share a process with the code."""

    units: tuple[Unit, ...]
    """Units, in the order in which they run."""
    finish: Callable[[ProgramVerdict], ProgramVerdict]
    """Function that turns a verdict with one case for each unit into the final verdict."""
    main: str = "__main__"
    kind: Literal["statements", "unittest"] = "statements"
    longest: int = LONGEST_DETAIL
    """Maximum number of characters of a case's detail. Of a longer detail the end is kept, and if
    the maximum exceeds LONGEST_DETAIL also the first lines.
    """

    @property
    def packed(self) -> tuple[str, ...]:
        """Return kind and text of the first unit, then of the next unit, and so on."""
        return tuple(text for unit in self.units for text in (unit.kind, unit.text))


def run_units(sandbox: Sandbox, code: str, tests: PythonTests, limits: Limits) -> ProgramVerdict:
    """Run `code`, then each unit, in one process.

    A unit that was not executed has failed. After tampering all units have failed.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run a program. This says nothing
            about the candidate.
    """
    job = job_of(code, tests)
    return tests.finish(of_records(*run_job(sandbox, job, tests.packed, limits), tests))


def job_of(code: str, tests: PythonTests) -> dict[str, str]:
    """Return the job that is sent to the runner in the sandbox before the tests."""
    return {"code": code + "\n", "main": tests.main, "kind": tests.kind}


def of_records(ran: ProgramVerdict, records: Records, tests: PythonTests) -> ProgramVerdict:
    """Return a run's verdict, with a case for each unit, from the runner's records."""
    cases = tuple(
        _believed(ran, records, n, unit, len(tests.units), tests.longest)
        for n, unit in enumerate(tests.units)
    )
    _, not_compiled = records.get("compile", ("", None))
    if not_compiled is not None:
        error = harmless(not_compiled, LONGEST_CASE_DETAIL)
        ran = ran.model_copy(update={"compile_error": error})
    return of_cases(ran, cases)


def of_cases(ran: ProgramVerdict, cases: tuple[CaseVerdict, ...]) -> ProgramVerdict:
    """Return a run's verdict from its cases.

    The verdict is passed if all cases passed, timeout if a limit stopped a case, else failed.
    """
    missed = [case for case in cases if case.outcome is not Outcome.PASSED]
    worst = next(
        (case for case in missed if case.outcome is Outcome.TIMEOUT), missed[0] if missed else None
    )
    if worst is None:
        return ran.model_copy(update={"outcome": Outcome.PASSED, "detail": "", "cases": cases})
    detail = harmless(f"{worst.name}\n{worst.detail}")
    return ran.model_copy(update={"outcome": worst.outcome, "detail": detail, "cases": cases})


@retried_alone
def run_job(
    sandbox: Sandbox,
    job: Mapping[str, str],
    tests: tuple[str | bytes, ...],
    limits: Limits,
    files: Mapping[str, bytes] | None = None,
) -> tuple[ProgramVerdict, Records]:
    """Send a job to the runner in the sandbox, and read the report that carries this run's secret.

    Args:
        sandbox: sandbox that runs the job.
        job: fields of the job, by name.
        tests: tests in the runner's form.
        limits: limits of the run.
        files: files to write into the working directory first.

    Returns:
        A verdict on the run, without cases, and the trustworthy records. All records are
        trustworthy if the runner reported the end or a time limit ended the run, and there was no
        tampering. Otherwise only the compiler's message is trustworthy.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run the program.
    """
    secret = secrets.token_hex(16)
    parts = {"folders": "\n".join(getattr(sandbox, "packages", ()) or package_folders()), **job}
    payload = fields(
        secret,
        f"{limits.cpu_s!r}",
        fields(*(part for item in parts.items() for part in item)),
        fields(*tests),
    )
    with sandbox.session(limits) as session:
        argv = ("{python}", "-S", "-s", "-P", "{harness}/run_function_tests.py")
        done = session.run(argv, stdin=payload, files=files)
    return believable_records(done, secret, limits)


def _believed(
    ran: ProgramVerdict, records: Records, n: int, unit: Unit, n_units: int, longest: int
) -> CaseVerdict:
    """Return the verdict of unit `n`: its own record if it has one, else the run's verdict."""
    outcome, detail = ran.outcome, ran.detail
    own_record = records.get(str(n))
    if own_record is not None:
        passed_to_its_end = ran.outcome is Outcome.PASSED or str(n_units - 1) not in records
        if own_record[0] != "passed" or passed_to_its_end:
            outcome, detail = Outcome(own_record[0]), own_record[1]
    elif "code" in records and n > 0 and str(n - 1) not in records:
        outcome, detail = Outcome.FAILED, "was not run: an earlier test ended the program"
    text = (
        ""
        if outcome is Outcome.PASSED
        else harmless(with_source_lines(detail, unit.source), longest)
    )
    return CaseVerdict(name=unit.name, outcome=outcome, detail=text)


def _believable(
    done: Completed, records: Records, limits: Limits
) -> tuple[ProgramVerdict, Records]:
    word, detail = records.get("end", ("", ""))
    outcome, reason = Outcome.FAILED, None
    if word == "tampering":
        detail, reason = f"tampering: {detail}", FailureReason.TAMPERING
    elif word != "passed" and done.out_of_memory:
        detail = f"used more than {limits.memory_mb} MB of memory"
    elif word:
        outcome = Outcome(word)
    elif done.timed_out:
        outcome, detail = Outcome.TIMEOUT, f"did not end within {limits.wall_s:g} s on the clock"
    else:
        detail = "ended the test runner it ran under"
    ran = ProgramVerdict(outcome=outcome, detail=detail, reason=reason, duration_s=done.wall_s)
    is_in_order = reason is None and (bool(word) or done.timed_out)
    return ran, records if is_in_order else {
        label: record for label, record in records.items() if label == "compile"
    }


def believable_records(
    done: Completed, secret: str, limits: Limits
) -> tuple[ProgramVerdict, Records]:
    """Return the verdict on a harness run, and those of its records that carry the secret.

    The tested program does not know the secret, so it cannot have written these records. The
    verdict has no cases yet.

    See `run_job`.

    Raises:
        SandboxUnavailable: the runner did not start.
    """
    if not done.report.startswith(_READY):
        text = harmless(done.stderr.decode(errors="replace"))[-300:].strip() or "no message"
        message = (
            f"the test runner did not start in the sandbox (exit {done.exit_code}, "
            f"signal {done.signal}, after {done.wall_s:.1f} s): {text}; try `parley doctor`"
        )
        raise HostShortage(message) if done.timed_out else sandbox_fault(message, text)
    return _believable(done, _records(done.report.removeprefix(_READY), secret), limits)


def _records(report: bytes, secret: str) -> Records:
    """Return a map from label to (outcome, detail) of the records that carry the secret."""
    parts, records = _unpacked(report), {}
    for key, label, word, detail in zip(
        parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=False
    ):
        if hmac.compare_digest(key, secret.encode()):
            records[label.decode()] = (word.decode(), detail.decode("utf-8", "replace"))
    return records


def with_source_lines(detail: str, source: str) -> str:
    """Return a traceback with the tests' source lines, which the candidate process lacks."""
    lines = source.splitlines()

    def add(match: re.Match[str]) -> str:
        n = int(match[2])
        return (
            f"{match[0]}\n{match[1]}  {lines[n - 1].strip()}" if 0 < n <= len(lines) else match[0]
        )

    return _TESTS_LINE.sub(add, detail)


def harmless(text: str, longest: int = LONGEST_DETAIL) -> str:
    """Return a shortened text that does not depend on the machine and is safe to show.

    Control characters are escaped, memory addresses are replaced, and the folders of Python's
    libraries are removed from tracebacks. Equal failures then have equal texts, and the text
    reveals nothing about this machine to a model.

    Args:
        text: text to clean.
        longest: maximum number of characters. Of a longer text the end is kept, and if the maximum
            exceeds LONGEST_DETAIL also the beginning.
    """
    plain = (
        _LIBRARY.sub("", _ADDRESS.sub("0x...", text))
        .translate(_HARMLESS)
        .encode("utf-8", "backslashreplace")
        .decode()
    )
    plain = plain.strip("\n")
    if len(plain) <= longest:
        return plain
    head = (
        "" if longest <= LONGEST_DETAIL else _whole_lines(plain[: longest // 4][::-1])[::-1] + "\n"
    )
    return f"{head}...\n{_whole_lines(plain[len(head) + 4 - longest :])}"


def _whole_lines(text: str) -> str:
    """Return a text, whose beginning was cut off, without its incomplete first line.

    A first line of 200 characters or more is kept.
    """
    return text.partition("\n")[2] if "\n" in text[:200] else text


def fields(*texts: str | bytes) -> bytes:
    """Encode several texts as one byte string, with the length of each (8 bytes) before it."""
    encoded = [
        text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass") for text in texts
    ]
    return b"".join(len(data).to_bytes(8, "big") + data for data in encoded)


def _unpacked(data: bytes) -> list[bytes]:
    fields: list[bytes] = []
    while len(data) >= 8:
        size = int.from_bytes(data[:8], "big")
        fields.append(data[8 : 8 + size])
        data = data[8 + size :]
    return fields

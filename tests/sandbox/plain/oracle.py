"""Plain Python's outcome of a program: a bare subprocess of the same Python, without Parley's
harness and sandbox.

Each kind of tests runs as the benchmarks' authors run it, in a fresh folder, with the limits and
the environment of a sandboxed program. Started by root, the subprocess gets a user of its own,
since root may read and write what a candidate may not, and a network of its own. Nothing else of it
is isolated.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.host.python_environment import (
    REPORT_VARIABLE,
    clean_environment,
    interpreter,
    python_roots,
)
from sandbox.host.resource_limits import prlimit_argv, required_tool
from sandbox.judging.runners.compiled_tests import NODE_FOLDERS, runtime_limits
from sandbox.judging.runners.programs import (
    AssertProgram,
    CheckProgram,
    JavaProgram,
    JavaScriptProgram,
    RepositoryProgram,
    StatementProgram,
    TestProgram,
    UnittestProgram,
)
from schemas.run import Limits

SCRIPT = "program.py"
UNITTEST_MAIN = Path(__file__).with_name("unittest_main.py")
PASSING_WORDS = ("PASSED", "XFAIL")
"""What pytest says of a test that counts as passed, by SWE-bench's rule."""
WORDS = (*PASSING_WORDS, "FAILED", "ERROR", "SKIPPED", "XPASS")
CHILDREN_S = 1.0
"""Time that children get to end after the program, before they count as left behind."""
FIRST_UID = 22_000
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options for a quick start; none changes what a program does."""
COMPILER_LIMITS = Limits(cpu_s=60, wall_s=240)
_LONGEST_DETAIL = 1500


@dataclass(frozen=True)
class PlainOutcome:
    """What plain Python, a JVM or node says of a program."""

    has_passed: bool
    cases: Mapping[str, bool] = field(default_factory=dict)
    """Test -> whether it passed, of the kinds whose tests have outcomes of their own."""
    detail: str = ""
    has_timed_out: bool = False
    has_left_processes: bool = False
    has_skipped: bool = False


@dataclass(frozen=True)
class _Run:
    """End of one subprocess."""

    exit_code: int
    output: str
    has_timed_out: bool
    has_left_processes: bool


def plain_outcome(program: TestProgram, limits: Limits) -> PlainOutcome:
    """Run a program's tests without Parley.

    Args:
        limits: of the program; of an `asserts` program, of each of its tests.
    """
    match program:
        case StatementProgram() | CheckProgram():
            return _script(_scripts(program)[0], limits)
        case AssertProgram():
            return _asserts(program, limits)
        case UnittestProgram():
            return _unittest(program, limits)
        case RepositoryProgram():
            return _pytest(program, limits)
        case JavaProgram():
            return _java(program, limits)
        case JavaScriptProgram():
            return _javascript(program, limits)


def ends_early(program: StatementProgram | CheckProgram | AssertProgram, limits: Limits) -> bool:
    """Tell whether a script of the program ends with exit status 0 before its last line."""
    return any(_ends_early(text, limits) for text in _scripts(program))


def _ends_early(text: str, limits: Limits) -> bool:
    """Run a script with a last line that leaves a file behind."""
    with _folder({SCRIPT: f"{text}\nopen('../tmp/end-of-script', 'w').close()\n"}) as folder:
        ran = _run(folder, (interpreter(), SCRIPT), limits)
        return ran.exit_code == 0 and not (folder.parent / "tmp" / "end-of-script").exists()


def _scripts(program: StatementProgram | CheckProgram | AssertProgram) -> tuple[str, ...]:
    """Give the scripts that decide a program: code, newline, tests; of an `asserts` program one for
    each test.
    """
    match program:
        case StatementProgram():
            return (f"{program.code}\n" + "\n".join(program.tests) + "\n",)
        case CheckProgram():
            return (f"{program.code}\n{program.test}\ncheck({program.entry_point})\n",)
        case AssertProgram():
            return tuple(f"{program.code}\n{test}\n" for test in program.tests)


def _script(text: str, limits: Limits) -> PlainOutcome:
    """Run a script. It passes by exit status 0."""
    with _folder({SCRIPT: text}) as folder:
        return _of_run(_run(folder, (interpreter(), SCRIPT), limits))


def _asserts(program: AssertProgram, limits: Limits) -> PlainOutcome:
    """Run one script a test."""
    outcomes = [_script(text, limits) for text in _scripts(program)]
    failed = next((one for one in outcomes if not one.has_passed), None)
    return PlainOutcome(
        has_passed=failed is None,
        cases={f"test {n}": one.has_passed for n, one in enumerate(outcomes, 1)},
        detail=failed.detail if failed else "",
        has_timed_out=any(one.has_timed_out for one in outcomes),
        has_left_processes=any(one.has_left_processes for one in outcomes),
    )


def _unittest(program: UnittestProgram, limits: Limits) -> PlainOutcome:
    """Run code and tests as one module and its suite by unittest's own loader, as BigCodeBench
    does.
    """
    files = {SCRIPT: f"{program.code}\n{program.test}\n"}
    with _folder(files) as folder:
        outcomes = folder.parent / "tmp" / "outcomes.json"
        ran = _run(
            folder, (interpreter(), "-c", UNITTEST_MAIN.read_text(), SCRIPT, str(outcomes)), limits
        )
        words: dict[str, str] = json.loads(outcomes.read_text()) if outcomes.exists() else {}
    return PlainOutcome(
        has_passed=ran.exit_code == 0 and bool(words),
        cases={name: word == "passed" for name, word in words.items()},
        detail=ran.output,
        has_timed_out=ran.has_timed_out,
        has_left_processes=ran.has_left_processes,
        has_skipped="skipped" in words.values(),
    )


def _pytest(program: RepositoryProgram, limits: Limits) -> PlainOutcome:
    """Run the nodes by `python -m pytest`, plugins of the environment left out."""
    command = (
        interpreter(),
        "-m",
        "pytest",
        "-pno:cacheprovider",
        "-oaddopts=",
        "-rA",
        "--tb=short",
        "--color=no",
    )
    with _folder(dict(program.files)) as folder:
        python_path = os.pathsep.join(str(folder / name) for name in ("", *program.folders))
        variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": python_path}
        ran = _run(folder, (*command, *program.arguments, *program.node_ids), limits, variables)
    words = [
        (word, node)
        for line in ran.output.splitlines()
        for word, _, node in [line.partition(" ")]
        if word in WORDS
    ]
    named = [(word, node.partition(" - ")[0]) for word, node in words]
    cases = {wanted: _has_passed(wanted, named) for wanted in program.node_ids}
    return PlainOutcome(
        has_passed=all(cases.values()),
        cases=cases,
        detail=ran.output,
        has_timed_out=ran.has_timed_out,
        has_left_processes=ran.has_left_processes,
        has_skipped=any(word == "SKIPPED" for word, _ in words),
    )


def _has_passed(wanted: str, named: Sequence[tuple[str, str]]) -> bool:
    """Decide a node: a function stands for its parameters, a class for its methods."""
    own = [
        word
        for word, node in named
        if node == wanted or node.startswith((f"{wanted}[", f"{wanted}::"))
    ]
    return bool(own) and all(word in PASSING_WORDS for word in own)


def _java(program: JavaProgram, limits: Limits) -> PlainOutcome:
    """Compile with `javac`, then run the class `Main`."""
    heap = f"-Xmx{max(64, limits.memory_mb * 3 // 4)}m"
    options = tuple(f"-J{option}" for option in (heap, *JVM))
    with _folder({"Main.java": program.prompt + program.completion + program.test}) as folder:
        compiled = _run(
            folder,
            ("javac", *options, "-nowarn", "-d", ".", "Main.java"),
            runtime_limits(COMPILER_LIMITS),
        )
        if compiled.exit_code != 0:
            return PlainOutcome(
                has_passed=False, detail=compiled.output, has_timed_out=compiled.has_timed_out
            )
        return _of_run(
            _run(folder, ("java", heap, *JVM, "-cp", ".", "Main"), runtime_limits(limits))
        )


def _javascript(program: JavaScriptProgram, limits: Limits) -> PlainOutcome:
    """Run with `node`."""
    heap = f"--max-old-space-size={max(64, limits.memory_mb * 3 // 4)}"
    with _folder({"program.js": program.prompt + program.completion + program.test}) as folder:
        return _of_run(
            _run(
                folder,
                ("node", heap, "program.js"),
                runtime_limits(limits),
                {"NODE_PATH": NODE_FOLDERS},
            )
        )


def _of_run(ran: _Run) -> PlainOutcome:
    return PlainOutcome(
        has_passed=ran.exit_code == 0,
        detail=ran.output,
        has_timed_out=ran.has_timed_out,
        has_left_processes=ran.has_left_processes,
    )


@contextmanager
def _folder(files: Mapping[str, str | bytes]) -> Iterator[Path]:
    """Make a working folder with files, beside an empty `tmp`, for the program's user."""
    top = Path(
        tempfile.mkdtemp(prefix="plain")
    )  # no dash: BigCodeBench/1127 splits its temporary paths there
    try:
        work = top / "work"
        for folder in (work, top / "tmp"):
            folder.mkdir()
        for name, content in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            data = (
                content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
            )
            (work / name).write_bytes(data)
        if os.geteuid() == 0:
            for path in (top, *top.rglob("*")):
                os.chown(path, _uid(), _uid())
        yield work
    finally:
        shutil.rmtree(top, ignore_errors=True)


def _uid() -> int:
    return FIRST_UID + threading.get_native_id() % 5_000


def _run(
    folder: Path, argv: tuple[str, ...], limits: Limits, variables: Mapping[str, str] | None = None
) -> _Run:
    """Run a command in a process group of its own, and end what the group has left."""
    environment = clean_environment(str(folder.parent / "tmp"), 0) | dict(variables or {})
    del environment[REPORT_VARIABLE]
    around, user = _as_user()
    command = (*around, *prlimit_argv(limits, count_processes=os.geteuid() == 0), *user, *argv)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        has_timed_out = False
        try:
            process.wait(limits.wall_s)
        except subprocess.TimeoutExpired:
            has_timed_out = True
        has_left = not has_timed_out and _outlives(process.pid)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        exit_code = process.wait()
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    is_pytest = "pytest" in argv
    by_cpu = (exit_code - 128 if exit_code > 128 else -exit_code) in (
        signal.SIGXCPU,
        signal.SIGKILL,
    )
    return _Run(
        exit_code, text if is_pytest else text[-_LONGEST_DETAIL:], has_timed_out or by_cpu, has_left
    )


def _as_user() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the prefixes, around and within the limits, that make root's subprocess an ordinary
    user's.

    Folders that only root may enter are covered, with Python in its place, so that the user can
    read it wherever it lies.
    """
    if os.geteuid() != 0:
        return (), ()
    uid = str(_uid())
    covers: dict[str, tuple[str, ...]] = {}
    for root in map(Path, python_roots()):
        folders = [*reversed(root.parents)]
        closed = next(
            (folder for folder in folders if not folder.stat().st_mode & stat.S_IXOTH), None
        )
        if closed is not None:
            covers.setdefault(str(closed), ("--perms", "0755", "--tmpfs", str(closed)))
            for folder in folders[folders.index(closed) + 1 :]:
                covers.setdefault(str(folder), ("--perms", "0755", "--dir", str(folder)))
            covers[str(root)] = ("--ro-bind", str(root), str(root))
    around = (
        "bwrap",
        "--dev-bind",
        "/",
        "/",
        "--unshare-net",
        *(part for cover in covers.values() for part in cover),
        "--",
    )
    identity = (
        "--reuid",
        uid,
        "--regid",
        uid,
        "--clear-groups",
        "--bounding-set",
        "-all",
        "--inh-caps",
        "-all",
        "--",
    )
    return around, (required_tool("setpriv"), *identity)


def _outlives(group: int) -> bool:
    """Tell whether a process of the group is there some time after its leader's end."""
    deadline = time.monotonic() + CHILDREN_S
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.01)
    return True

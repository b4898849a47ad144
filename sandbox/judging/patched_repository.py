"""Grading of a patch to a repository by the tests that its project wrote for the fix.

Grading follows section 2 of the SWE-bench paper and SWE-bench's harness. It uses its own workspace,
never the agent's. It applies the patch to the files of the base commit, resets each file that
controls tests to the base commit with the test patch, and runs the tests
(`harness/project_tests.py`) with pytest or the project's own runner. Outcomes are reported over a
sealed channel. The audit decides whether a pass was earned.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType

from sandbox.host.python_environment import package_folders
from sandbox.host.slots import retried_alone
from sandbox.interface import Completed
from sandbox.judging.judged_run import Records, believable_records, fields, harmless, of_cases
from sandbox.judging.project_runners import (
    AS_BEFORE,
    PASS,
    RUNNERS,
    command_of,
    failed_in_log,
    record_of,
)
from sandbox.workspace.interface import ENVIRONMENT_PLACE, TreeOverrun, Trees, image_of, programs_of
from sandbox.workspace.workspace import Workspace
from schemas.errors import HostShortage, SandboxUnavailable, Unscorable
from schemas.problem import COMMAND, RUNNER, SERVICES, RepoSnapshot
from schemas.run import Limits
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict

STEERING = (
    r"(^|/)(tests?|testing|e2e)/"
    r"|(^|/)(conftest|test_[^/]*|[^/]*_test|sitecustomize|usercustomize)\.py$"
    r"|(^|/)(\.?pytest\.(ini|toml)|tox\.ini|setup\.cfg|pyproject\.toml)$"
    r"|^(pytest|_pytest|pluggy|unittest)(/|\.py$)"
    r"|\.(pth|pyc|pyd|so|egg-link)$|(^|/)[^/]*\.(dist|egg)-info/"
)
"""Pattern of paths of files that control tests, or that could replace tests, pytest or Python. The
candidate's changes to such files are reverted. In SWE-bench no gold patch changes such a file:
files with `test` in their path are in the test patch.
"""
_NO_TOOLS = 69
_APPLY = r"""
command -v git > /dev/null && command -v patch > /dev/null || exit 69
cat > /tmp/parley.patch
again() { git reset -q --hard && git clean -fdxq; }
said() { echo "parley: applied by $1" >&2; exit 0; }
tried() { "$@"; s=$?; [ $s -le 128 ] || exit $s; return $s; }
tried git apply --verbose /tmp/parley.patch && said "git apply"
again; tried git apply --verbose --3way /tmp/parley.patch && git reset -q && said "git apply --3way"
again; tried git apply --verbose --reject /tmp/parley.patch && said "git apply --reject"
again; tried patch --batch --fuzz=5 -p1 -i /tmp/parley.patch && said "patch --fuzz=5"
again; exit 1
"""
_OLDEST = (3, 5)
"""Oldest Python on which the harness can run in an environment (see `harness/project_tests.py`)."""
_WARNINGS, _PATH = "PYTHONWARNINGS", "PYTHONPATH"
"""Environment variables that are set only after the runner has started. Otherwise warnings could
become errors in the harness, and a module of the project could replace a module of the runner.
"""
_RAN = ("0", "1")
"""Exit codes with which a runner ends if the tests ran, whether they passed or failed."""
OpenPlace = Callable[[str, str], AbstractContextManager[Workspace]]
"""Function that opens a fresh workspace, without shell state. Its arguments are the digest of a
tree, and the digest of an environment or an empty text.
"""


@dataclass(frozen=True)
class PatchProgram:
    """Patch, and the repository with the tests that grade the patch."""

    patch: str
    repository: RepoSnapshot

    @property
    def wanted(self) -> tuple[str, ...]:
        """Return the ids of all tests that decide the verdict."""
        return (*self.repository.fail_to_pass, *self.repository.pass_to_pass)


def run_patch(
    open_place: OpenPlace,
    trees: Trees,
    program: PatchProgram,
    limits: Limits,
    altered: Mapping[str, bytes] = MappingProxyType({}),
) -> ProgramVerdict:
    """Apply the patch, restore the tests, and run them.

    Args:
        open_place: function that opens a fresh workspace.
        trees: store of the repositories' trees.
        program: patch and repository.
        limits: limits of the command that applies the patch, and of the command that runs the
            tests.
        altered: new contents of test files, by name. An audit passes files with altered
            expectations.

    Returns:
        A verdict with a case for each test of `fail_to_pass` and `pass_to_pass`. A test passes if
        its outcome is PASSED or XFAIL. A test of `pass_to_pass` that is skipped, or that marks
        itself as an expected failure while it runs (`pytest.xfail()`), passes if it has the same
        outcome without the patch. In all other cases the test fails, for example if it did not run
        or the patch cannot be applied.

    Raises:
        SandboxUnavailable: the sandbox could not apply the patch or run the tests: a tool is
            missing, or the command was ended.
        Unscorable: the tests need the network, no known runner uses such test names, the tree is
            missing, or the environment's Python is older than 3.5 or missing.
    """
    repository = program.repository
    if repository.web_tests:
        named = ", ".join(repository.web_tests)
        raise Unscorable(
            f"its tests ask for public web pages: {named}", FailureReason.NETWORK_MISSING
        )
    if not (repository.tree and repository.tested_tree):
        raise Unscorable("the files of its repository are not there", FailureReason.SOURCE_MISSING)
    if not repository.runner and not any("::" in name for name in program.wanted):
        named = program.wanted[0] if program.wanted else ""
        raise Unscorable(
            f"an unknown program of the project runs its tests: {named!r} is not a pytest node id"
        )
    with open_place(repository.tree, repository.environment) as place:
        refusal = _apply(place, trees, program, limits)
        if refusal:
            cases = tuple(
                CaseVerdict(name=name, outcome=Outcome.FAILED, detail=refusal)
                for name in program.wanted
            )
            return of_cases(ProgramVerdict(outcome=Outcome.FAILED), cases)
        for name, content in altered.items():
            place.put(name, content)
        ran, records = _run_tests(place, repository, limits)
    cases = [_case(name, ran, records, _runner_name(repository)) for name in program.wanted]
    words = {name: record_of(name, records)[0] for name in repository.pass_to_pass}
    undecided = {name: word for name, word in words.items() if word in AS_BEFORE}
    if (
        undecided
        and ran.outcome is Outcome.PASSED
        and all(case.outcome is Outcome.PASSED or case.name in undecided for case in cases)
    ):
        with open_place(repository.tested_tree, repository.environment) as place:
            before = _run_tests(place, repository, limits)
        cases = [_as_before(case, undecided, *before) for case in cases]
    return of_cases(ran, tuple(cases))


def _as_before(
    case: CaseVerdict, undecided: Mapping[str, str], before: ProgramVerdict, records: Records
) -> CaseVerdict:
    """Return an undecided case as passed if it has the same outcome without the patch.

    Args:
        case: case of the run with the patch.
        undecided: outcome of each undecided test with the patch, by name.
        before: verdict of the run without the patch.
        records: outcomes of the run without the patch.
    """
    is_equal = before.outcome is Outcome.PASSED and case.name in undecided
    if is_equal and record_of(case.name, records)[0] == undecided[case.name]:
        return case.model_copy(update={"outcome": Outcome.PASSED})
    return case


def _apply(place: Workspace, trees: Trees, program: PatchProgram, limits: Limits) -> str:
    """Apply the patch, then restore the files that control tests.

    Returns:
        The reason why the patch could not be applied, or an empty text.
    """
    repository = program.repository
    steering: set[str] = set()
    if program.patch.strip():
        patch = program.patch if program.patch.endswith("\n") else f"{program.patch}\n"
        done = _patched(place, patch.encode("utf-8", "surrogatepass"), limits)
        if done.exit_code != 0:
            return harmless(f"the patch does not apply\n{done.stderr.decode(errors='replace')}")
        try:
            after = place.snapshot()
        except TreeOverrun as overrun:
            return harmless(f"with the patch there are {overrun}")
        touched = (
            path for path in trees.changes(repository.tree, after) if not path.startswith(".git/")
        )
        steering = {path for path in touched if re.search(_steering(repository), path)}
    of_test_patch = trees.changes(repository.tree, repository.tested_tree)
    from_base = {path: None for path in steering if path not in of_test_patch}
    base_entries = dict(trees.files(repository.tested_tree, from_base)) if from_base else {}
    right = {
        **{path: base_entries.get(path) for path in from_base},
        **{path: entry for path, (_, entry) in of_test_patch.items()},
    }
    # Files are removed before others are written.
    for path, entry in sorted(right.items(), key=lambda item: item[1] is not None):
        if entry is None:
            place.put(path, None)
        elif entry.is_link:
            place.put(path, entry.what.encode("utf-8", "surrogateescape"), is_link=True)
        else:
            place.put(path, trees.get(entry.what), entry.mode)
    return ""


@retried_alone
def _patched(place: Workspace, patch: bytes, limits: Limits) -> Completed:
    """Apply a patch, trying several commands one after another.

    Raises:
        SandboxUnavailable: a tool is missing, or a command was ended before it finished.
    """
    done = place.run(("/bin/sh", "-c", _APPLY), limits, stdin=patch)
    if done.exit_code in (0, 1) and not done.out_of_memory:
        return done
    text = harmless(done.stderr.decode(errors="replace"))[-300:].strip()
    if done.exit_code == _NO_TOOLS or (done.exit_code in (126, 127) and done.signal is None):
        raise SandboxUnavailable(
            "applying a patch needs the programs sh, git and patch in the sandbox: "
            f"install them there; {text}"
        )
    ended = (
        "ran out of time"
        if done.timed_out
        else "ran out of memory"
        if done.out_of_memory
        else f"ended with {_ending(done)}"
    )
    raise HostShortage(
        f"git and patch {ended} after {done.wall_s:.0f} s, so the patch has no result: "
        f"{text or 'no message'}"
    )


def _ending(done: Completed) -> str:
    return f"signal {done.signal}" if done.exit_code is None else f"exit status {done.exit_code}"


def _steering(repository: RepoSnapshot) -> str:
    return f"{STEERING}|{RUNNERS[repository.runner].steering}" if repository.runner else STEERING


def _runner_name(repository: RepoSnapshot) -> str:
    return repository.runner or "pytest"


@retried_alone
def _run_tests(
    place: Workspace, repository: RepoSnapshot, limits: Limits
) -> tuple[ProgramVerdict, Records]:
    """Run the repository's tests. Return the run's verdict, and the outcome of each test."""
    secret = secrets.token_hex(16)
    environment, python, folders = repository.environment, "{python}", "\n".join(package_folders())
    if environment:
        python = f"{programs_of(environment)}/python"
        folders = "" if image_of(environment) else f"{ENVIRONMENT_PLACE}/packages"
    variables = {
        name: value
        for name, value in repository.variables
        if name not in (RUNNER, COMMAND, SERVICES)
    }
    job = _job(repository, folders, variables.pop(_WARNINGS, ""), variables.pop(_PATH, ""))
    payload = fields(
        secret,
        f"{limits.cpu_s!r}",
        fields(*(part for item in job.items() for part in item)),
        fields(),
    )
    supervisor = (
        "{python}",
        "-S",
        "-s",
        *(() if image_of(environment) else ("-P",)),
        "{harness}/run_project_tests.py",
    )
    services = dict(repository.variables).get(SERVICES)
    if services:
        variables[SERVICES] = json.dumps({"packages": folders, "services": json.loads(services)})
    assignments = (f"{name}={value}" for name, value in variables.items())
    done = place.run(
        (*supervisor, *assignments, "--", python, *repository.python_flags, "-S", "-s"),
        limits,
        stdin=payload,
    )
    if environment and b"node exit" not in done.report:
        _require_python(place, python, limits)
    ran, records = believable_records(done, secret, limits)
    code, _ = records.get("node exit", ("", ""))
    if ran.outcome is Outcome.PASSED and code not in _RAN:
        detail = f"{_runner_name(repository)} ended with code {code or 'none'}"
        ran = ran.model_copy(update={"outcome": Outcome.FAILED, "detail": detail})
    return ran, _checked_by_log(repository, done, records)


def _job(repository: RepoSnapshot, folders: str, warnings: str, paths: str) -> dict[str, str]:
    """Return the fields that `harness/run_project_tests.py` reads. Lists have a line per item.

    Args:
        repository: repository with its tests.
        folders: folders of packages, as lines.
        warnings: value of PYTHONWARNINGS.
        paths: value of PYTHONPATH.
    """
    command: Iterable[str] = ()
    if repository.runner:
        command = command_of(repository.runner, repository.command, repository.test_files)
    return {
        "kind": "repository",
        "runner": repository.runner,
        "folders": folders,
        "files": "\n".join(repository.test_files),
        "arguments": "\n".join(repository.pytest_flags),
        "warnings": warnings,
        "paths": paths.replace(":", "\n"),
        "command": "\n".join(command),
        "nodes": "",
        "environment": "",
    }


def _checked_by_log(repository: RepoSnapshot, done: Completed, records: Records) -> Records:
    """Return the records, with each test as failed that failed according to the runner's log."""
    if not repository.runner:
        return records
    log = "\n".join(stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    failed = {f"node {name}" for name in failed_in_log(repository.runner, log)}
    refused = ("FAILED", "its report says that it passed, the runner's log that it failed")
    return {
        label: refused if record[0] in PASS and label in failed else record
        for label, record in records.items()
    }


def _require_python(place: Workspace, python: str, limits: Limits) -> None:
    """Check that the environment's Python can run the harness.

    This distinguishes an unusable environment from failed tests.

    Raises:
        Unscorable: Python is too old or missing.
    """
    answer = place.run(
        (python, "-E", "-S", "-c", "import sys; print('%d %d' % sys.version_info[:2])"), limits
    )
    version = tuple(int(part) for part in answer.stdout.split() if part.isdigit())
    if answer.exit_code not in (0, 126, 127) or version >= _OLDEST:
        return
    if answer.exit_code == 0:
        fault = f"the Python of its environment is {'.'.join(map(str, version))}"
    else:
        stderr = harmless(answer.stderr.decode(errors="replace"))[-200:].strip()
        fault = f"its environment has no Python at {python} ({stderr})"
    oldest = ".".join(map(str, _OLDEST))
    raise Unscorable(
        f"{fault}: tests are graded with {oldest} or newer", FailureReason.TOOLCHAIN_MISSING
    )


def _case(name: str, ran: ProgramVerdict, records: Records, runner: str) -> CaseVerdict:
    word, detail = record_of(name, records)
    is_sound = ran.outcome is Outcome.PASSED
    if is_sound and word in PASS:
        return CaseVerdict(
            name=name,
            outcome=Outcome.PASSED,
            detail="" if word == "PASSED" else f"{runner} says {word}",
        )
    outcome = Outcome.FAILED if is_sound or ran.outcome is not Outcome.TIMEOUT else Outcome.TIMEOUT
    if is_sound and word in AS_BEFORE:
        return CaseVerdict(name=name, outcome=outcome, detail=f"{runner} says {word}")
    text = "\n".join(
        filter(
            None, (f"{runner} says {word}" if word else "", detail, "" if is_sound else ran.detail)
        )
    )
    return CaseVerdict(
        name=name, outcome=outcome, detail=harmless(text or f"{runner} did not run it")
    )

"""Grades a patch to a repository by the tests that its project wrote for the fix (SWE-bench's way, section 2 and its harness).

Works in a place of its own, never the agent's: applies the patch to the files of the base commit, puts each file that steers
tests back to the base commit with the test patch, then runs the tests. A candidate's word brings about a failure at worst: each
pass was told under the run's secret, and pytest was the same before and after (`harness/pytest_suite.py`).
"""

import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType

from sandbox.host.python_environment import package_folders
from sandbox.interface import Completed
from sandbox.judging.infra_faults import retried_alone
from sandbox.judging.judged_run import Records, believable_records, fields, harmless, of_cases
from sandbox.workspace.interface import ENVIRONMENT_PLACE, TreeOverrun, Trees, image_of, programs_of
from sandbox.workspace.workspace import Workspace
from schemas.errors import HostShortage, SandboxUnavailable, Unscorable
from schemas.problem import RepoSnapshot
from schemas.run import Limits
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict

STEERING = (
    r"(^|/)(tests?|testing|e2e)/"
    r"|(^|/)(conftest|test_[^/]*|[^/]*_test|sitecustomize|usercustomize)\.py$"
    r"|(^|/)(\.?pytest\.(ini|toml)|tox\.ini|setup\.cfg|pyproject\.toml)$"
    r"|^(pytest|_pytest|pluggy|unittest)(/|\.py$)"
    r"|\.(pth|pyc|pyd|so|egg-link)$|(^|/)[^/]*\.(dist|egg)-info/"
)
"""Paths of files that decide what tests do, or what stands for tests, pytest and Python. SWE-bench has no such file in a gold
patch: what has `test` in its path is in the test patch. The candidate's changes to them are put back."""
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
_OLDER_PYTHON = b"Unknown option: -P"
_OLDEST_IN_IMAGE = (3, 9)
"""The runner itself needs no newer one: without `-P` a script's own folder is on the path, which is the runner's."""
_WARNINGS, _PATH = "PYTHONWARNINGS", "PYTHONPATH"
"""Set once the runner is there: what counts as an error in the project's code need not in ours, and no module of the project is
the runner's."""
_PASS = ("PASSED", "XFAIL")
_RAN = ("0", "1")
"""pytest's exit codes for tests that ran, well or not."""
OpenPlace = Callable[[str, str], AbstractContextManager[Workspace]]
"""(digest of a tree, digest of an environment or nothing) -> a fresh workspace there, without state."""


@dataclass(frozen=True)
class PatchProgram:
    """A patch, and the repository with the tests that judge it."""

    patch: str
    repository: RepoSnapshot

    @property
    def wanted(self) -> tuple[str, ...]:
        """Ids of all tests that count."""
        return (*self.repository.fail_to_pass, *self.repository.pass_to_pass)


def run_patch(
    open_place: OpenPlace,
    trees: Trees,
    program: PatchProgram,
    limits: Limits,
    altered: Mapping[str, bytes] = MappingProxyType({}),
) -> ProgramVerdict:
    """Apply the patch, put the tests in place, run them.

    Args:
        limits: of the test command; the patch is applied within them, too.
        altered: other contents of test files, by name; an audit alters what they expect.

    Returns:
        With a case for each test of both lists. PASSED and XFAIL pass. SKIPPED passes a test that must go on passing, where it
        is skipped without the patch, too. All else fails: absence, an error, a patch that does not apply.

    Raises:
        SandboxUnavailable: the sandbox could not apply it or run the tests: a tool is missing, something ended it, or the
            environment's Python is older than 3.11.
        Unscorable: its tests ask for the network or are not pytest's, its tree is not there, or the Python of its image is
            older than 3.9.
    """
    repository = program.repository
    if repository.web_tests:
        named = ", ".join(repository.web_tests)
        raise Unscorable(f"its tests ask for public web pages: {named}", FailureReason.NETWORK_MISSING)
    if not (repository.tree and repository.tested_tree):
        raise Unscorable("the files of its repository are not there", FailureReason.SOURCE_MISSING)
    if not any("::" in name for name in program.wanted):
        named = program.wanted[0] if program.wanted else ""
        raise Unscorable(f"its tests are run by a program of the project's own, not by pytest: {named!r} is no id of pytest's")
    with open_place(repository.tree, repository.environment) as place:
        refused = _apply(place, trees, program, limits)
        if refused:
            cases = tuple(CaseVerdict(name=name, outcome=Outcome.FAILED, detail=refused) for name in program.wanted)
            return of_cases(ProgramVerdict(outcome=Outcome.FAILED), cases)
        for name, content in altered.items():
            place.put(name, content)
        ran, records = _run_tests(place, repository, limits)
    cases = [_case(name, ran, records) for name in program.wanted]
    skipped = {case.name for case in cases if case.detail == "pytest says SKIPPED"} & set(repository.pass_to_pass)
    if skipped and all(case.outcome is Outcome.PASSED or case.name in skipped for case in cases):
        with open_place(repository.tested_tree, repository.environment) as place:
            before, told = _run_tests(place, repository, limits)
        without = {name for name in skipped if before.outcome is Outcome.PASSED and _word(name, told)[0] == "SKIPPED"}
        cases = [case.model_copy(update={"outcome": Outcome.PASSED}) if case.name in without else case for case in cases]
    return of_cases(ran, tuple(cases))


def _apply(place: Workspace, trees: Trees, program: PatchProgram, limits: Limits) -> str:
    """Apply the patch, then put in place what steers tests. Returns why it cannot be, or nothing."""
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
        touched = (path for path in trees.changes(repository.tree, after) if not path.startswith(".git/"))
        steering = {path for path in touched if re.search(STEERING, path)}
    of_test_patch = trees.changes(repository.tree, repository.tested_tree)
    from_base = {path: None for path in steering if path not in of_test_patch}
    kept = dict(trees.files(repository.tested_tree, from_base)) if from_base else {}
    right = {**{path: kept.get(path) for path in from_base}, **{path: entry for path, (_, entry) in of_test_patch.items()}}
    for path, entry in sorted(right.items(), key=lambda item: item[1] is not None):  # what goes goes first
        if entry is None:
            place.put(path, None)
        elif entry.is_link:
            place.put(path, entry.what.encode("utf-8", "surrogateescape"), is_link=True)
        else:
            place.put(path, trees.get(entry.what), entry.mode)
    return ""


@retried_alone
def _patched(place: Workspace, patch: bytes, limits: Limits) -> Completed:
    """Try all ways to apply a patch; those that did not come to an end say nothing about it.

    Raises:
        SandboxUnavailable: the tools are not there, or something ended them.
    """
    done = place.run(("/bin/sh", "-c", _APPLY), limits, stdin=patch)
    if done.exit_code in (0, 1) and not done.out_of_memory:
        return done
    said = harmless(done.stderr.decode(errors="replace"))[-300:].strip()
    if done.exit_code == _NO_TOOLS or (done.exit_code in (126, 127) and done.signal is None):
        raise SandboxUnavailable(f"a patch needs the programs sh, git and patch in the sandbox: install them there; {said}")
    ended = "ran out of time" if done.timed_out else "ran out of memory" if done.out_of_memory else f"ended with {_ending(done)}"
    raise HostShortage(
        f"git and patch {ended} after {done.wall_s:.0f} s, so nothing is known of the patch: {said or 'no message'}"
    )


def _ending(done: Completed) -> str:
    return f"signal {done.signal}" if done.exit_code is None else f"exit status {done.exit_code}"


@retried_alone
def _run_tests(place: Workspace, repository: RepoSnapshot, limits: Limits) -> tuple[ProgramVerdict, Records]:
    secret = secrets.token_hex(16)
    python, folders = "{python}", "\n".join(package_folders())
    if repository.environment:
        python = f"{programs_of(repository.environment)}/python"
        folders = "" if image_of(repository.environment) else f"{ENVIRONMENT_PLACE}/packages"
    variables = dict(repository.variables)
    job = {
        "kind": "repository",
        "folders": folders,
        "files": "\n".join(repository.test_files),
        "arguments": "\n".join(repository.pytest_flags),
        "warnings": variables.pop(_WARNINGS, ""),
        "paths": variables.pop(_PATH, "").replace(":", "\n"),
        **dict.fromkeys(("nodes", "environment"), ""),
    }
    payload = fields(secret, f"{limits.cpu_s!r}", fields(*(part for item in job.items() for part in item)), fields())
    flags = (*repository.python_flags, "-S", "-s", *(() if image_of(repository.environment) else ("-P",)))
    given = (f"{name}={value}" for name, value in variables.items())
    argv = ("/usr/bin/env", *given, python, *flags, "{harness}/run_function_tests.py")
    done = place.run(argv, limits, stdin=payload)
    if not done.report and image_of(repository.environment):
        _require_python(place, python, limits)
    if not done.report and _OLDER_PYTHON in done.stderr:
        raise SandboxUnavailable("its environment has a Python older than 3.11, which cannot run tests here: pin 3.11 or newer")
    ran, records = believable_records(done, secret, limits)
    code, _ = records.get("node exit", ("", ""))
    if ran.outcome is Outcome.PASSED and code not in _RAN:
        ran = ran.model_copy(update={"outcome": Outcome.FAILED, "detail": f"pytest ended with code {code or 'none'}"})
    return ran, records


def _require_python(place: Workspace, python: str, limits: Limits) -> None:
    """Tell an image whose Python cannot run the runner from a runner that failed.

    Raises:
        Unscorable: it is too old, or is not there.
    """
    asked = place.run((python, "-I", "-c", "import sys; print(*sys.version_info[:2])"), limits)
    found = tuple(int(part) for part in asked.stdout.split() if part.isdigit())
    if asked.exit_code not in (0, 126, 127) or found >= _OLDEST_IN_IMAGE:
        return
    oldest = ".".join(map(str, _OLDEST_IN_IMAGE))
    if asked.exit_code == 0:
        said = f"the Python of its image is {'.'.join(map(str, found))}"
    else:
        said = f"its image has no Python at {python} ({harmless(asked.stderr.decode(errors='replace'))[-200:].strip()})"
    raise Unscorable(f"{said}: tests are graded in images with {oldest} or newer", FailureReason.TOOLCHAIN_MISSING)


def _case(name: str, ran: ProgramVerdict, records: Records) -> CaseVerdict:
    word, detail = _word(name, records)
    is_sound = ran.outcome is Outcome.PASSED
    if is_sound and word in _PASS:
        return CaseVerdict(name=name, outcome=Outcome.PASSED, detail="" if word == "PASSED" else f"pytest says {word}")
    outcome = Outcome.FAILED if is_sound or ran.outcome is not Outcome.TIMEOUT else Outcome.TIMEOUT
    if is_sound and word == "SKIPPED":
        return CaseVerdict(name=name, outcome=outcome, detail="pytest says SKIPPED")
    said = "\n".join(filter(None, (f"pytest says {word}" if word else "", detail, "" if is_sound else ran.detail)))
    return CaseVerdict(name=name, outcome=outcome, detail=harmless(said or "pytest did not run it"))


def _word(name: str, records: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """pytest's word for a test, and its detail. An id that was cut at a space in its brackets stands for all that begin so, where
    they agree."""
    found = records.get(f"node {name}")
    if found is not None:
        return found
    if "[" in name and not name.endswith("]"):
        alike = [told for label, told in records.items() if label.startswith(f"node {name}")]
        if alike and len({told[0] in _PASS for told in alike}) == 1:
            return alike[0]
    return "", ""

"""PARLEY_HOME and what the parent knows are out of a program's reach, wherever they lie."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox.backends.bubblewrap import tool
from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.host import python_environment
from sandbox.host.python_environment import is_inside
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome

LIMITS = Limits(cpu_s=2, wall_s=20)
REPOSITORY = Path(__file__).resolve().parents[3]


def test_parley_home_and_the_repository_are_not_there(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PARLEY_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-sentinel")
    (tmp_path / "warehouse.duckdb").write_text("sentinel")
    others = [
        p
        for p in ("/var", "/home")
        if not any(is_inside(root, p) for root in python_environment.python_roots())
    ]
    paths = [
        str(tmp_path),
        str(REPOSITORY / "schemas"),
        str(REPOSITORY / "pyproject.toml"),
        "/etc/shadow",
        *others,
    ]
    program = (
        f"import json, os; print(json.dumps([[p for p in {paths!r} if os.path.exists(p)], "
        "sorted(os.environ)]))"
    )
    with bubblewrap.session(LIMITS) as session:
        seen, variables = json.loads(session.run(("{python}", "-c", program)).stdout)
    assert seen == []
    assert "PARLEY_HOME" not in variables
    assert not [name for name in variables if "KEY" in name]


def test_parley_home_inside_the_python_prefix_is_masked(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if tmp_path.parts[1] != "tmp":
        pytest.skip(f"temporary folders are not under /tmp but {tmp_path}")
    home = tmp_path / "prefix" / ".parley"
    home.mkdir(parents=True)
    (home / "key").write_text("sentinel")
    (tmp_path / "prefix" / "shown").write_text("shown")
    monkeypatch.setenv("PARLEY_HOME", str(home))
    roots = (*python_environment.python_roots(), str(tmp_path / "prefix"))
    monkeypatch.setattr(tool, "python_roots", lambda: roots)
    for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    program = f"import os; print(os.listdir({str(home)!r}), os.listdir({str(home.parent)!r}))"
    with bubblewrap.session(LIMITS) as session:
        done = session.run(("{python}", "-c", program))
    listed = done.stdout.decode()
    assert listed.startswith("[] ["), done
    assert "shown" in listed


def test_the_parent_is_not_visible_in_proc(bubblewrap: BubblewrapSandbox):
    program = (
        "import os; print([open(f'/proc/{p}/environ', 'rb').read() for p in os.listdir('/proc') "
        "if p == '1'])"
    )
    with bubblewrap.session(LIMITS) as session:
        done = session.run(("{python}", "-c", program))
    assert done.stdout in (b"", b"[b'']\n")  # nobody else's, or empty


PACKAGES = (
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_inspection",
    "typing_extensions.py",
    "pyseccomp.py",
    "pyarrow",
)
SCRIPT = """
import json
from sandbox.conformance import CASES
from sandbox.judging.runners.run import run_function_tests
from sandbox.registry import load
from schemas.run import Limits
s = load("bubblewrap")
s.check()
wrong = {c.name: v for c in CASES if c.name not in %r and (v := c.violation(s))}
spying = "import os\\nopen(f'/proc/{os.getppid()}/maps')\\ndef f(): return 1"
programs = ("def f(): return 1", "import os; os._exit(0)", spying)
runs = [run_function_tests(s, p, ("assert f() == 1",), Limits(cpu_s=2)).outcome.value for p in programs]
print(json.dumps([wrong, runs]))
"""
NEEDS_NUMPY = ("packages_import", "system_and_python_are_read_only")


@pytest.mark.long
@pytest.mark.slow
def test_an_ordinary_user_gets_the_same_isolation():
    """In a user namespace: as nobody, with the system's Python and a copy of what it needs."""
    run_as_nobody(SCRIPT % (NEEDS_NUMPY,), "user")


def run_as_nobody(script: str, name: str) -> None:
    """Run a script that prints what fails of the conformance list, and three outcomes; skips where
    that cannot be had.
    """
    assert said_by_nobody(script, name) == [{}, ["passed", "failed", "failed"]]


def said_by_nobody(script: str, name: str) -> Any:
    """The JSON that a script prints as nobody; skips where no sandbox can be had so."""
    if os.geteuid() != 0:
        pytest.skip("every other test runs as an ordinary user already")
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not os.path.exists(python):
        pytest.skip(f"no {python} that nobody may run and that fits the compiled packages")
    place = Path("/var/tmp") / f"parley-{name}-{os.getpid()}"
    try:
        _copy_for_everybody(place)
        done = subprocess.run(
            [
                "setpriv",
                "--reuid",
                "65534",
                "--regid",
                "65534",
                "--clear-groups",
                python,
                "-c",
                script,
            ],
            env={
                "PYTHONPATH": f"{place}/site-packages:{place}/code",
                "PATH": "/usr/bin:/bin",
                "TMPDIR": f"{place}/tmp",
            },
            cwd=place,
            capture_output=True,
            text=True,
            timeout=240,
        )
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)
    if "may not make namespaces" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _copy_for_everybody(place: Path) -> None:
    for folder in ("site-packages", "code", "tmp"):
        (place / folder).mkdir(parents=True)
    for package in PACKAGES:
        source = Path(python_environment.package_folders()[0]) / package
        subprocess.run(["cp", "-r", str(source), str(place / "site-packages")], check=True)
    for package in ("sandbox", "schemas", "tasks"):
        subprocess.run(["cp", "-r", str(REPOSITORY / package), str(place / "code")], check=True)
    subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
    (place / "tmp").chmod(0o1777)


def test_one_candidate_cannot_reach_another(bubblewrap: BubblewrapSandbox):
    """Two runs in a row share no file, not even in /tmp or /dev/shm."""
    places = "('/tmp/x', '/dev/shm/x', 'x')"
    first = run_function_tests(
        bubblewrap, f"for p in {places}: open(p, 'w').write('1')", ("pass",), LIMITS
    )
    second = run_function_tests(
        bubblewrap, "import os", (f"assert not any(os.path.exists(p) for p in {places})",), LIMITS
    )
    assert (first.outcome, second.outcome) == (Outcome.PASSED, Outcome.PASSED)

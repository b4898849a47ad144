"""A fault of the sandbox is never a verdict: it is raised, with what to do."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox import registry
from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.host import python_environment
from sandbox.host.slots import hold_slot
from sandbox.judging.runners.run import run_function_tests
from sandbox.registry import SANDBOXES
from schemas.errors import SandboxUnavailable, UnknownName
from schemas.run import Limits

REPOSITORY = Path(__file__).resolve().parents[3]


def stand_in(folder: Path, script: str) -> str:
    """A program in bwrap's place that fails as bwrap is known to fail."""
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def run_with(sandbox: BubblewrapSandbox) -> None:
    run_function_tests(
        sandbox, "def f(): return 1", ("assert f() == 1",), Limits(cpu_s=1, wall_s=2)
    )


def test_missing_bwrap_says_what_to_install():
    sandbox = BubblewrapSandbox(bwrap_path="/no/such/bwrap")
    for use in (sandbox.check, sandbox.fingerprint, lambda: run_with(sandbox)):
        with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
            use()


def test_bwrap_off_the_path_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="bwrap: bubblewrap is not installed"):
        BubblewrapSandbox().check()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo 'bwrap: No permissions to create a new namespace' >&2; exit 1",
            "allow unprivileged user namespaces",
        ),
        (
            'echo "bwrap: Can\'t find source path /x: No such file or directory" >&2; exit 1',
            "could not set up a sandbox.*source path",
        ),
        ("exit 0", "could not set up a sandbox"),
        ("kill -9 $$", "was killed by signal 9"),
        ("exec sleep 30", "overloaded"),
    ],
)
def test_a_sandbox_that_does_not_get_up_is_no_verdict(tmp_path: Path, script: str, message: str):
    with pytest.raises(SandboxUnavailable, match=message):
        run_with(BubblewrapSandbox(bwrap_path=stand_in(tmp_path, script)))


@pytest.mark.slow
def test_bwrap_killed_during_a_run_is_no_verdict(bubblewrap: BubblewrapSandbox, tmp_path: Path):
    """An out-of-memory kill of the host, say, while the candidate runs."""
    real = bubblewrap._bwrap
    killer = stand_in(tmp_path, f'{real} "$@" & child=$!; sleep 0.5; kill -9 $child; kill -9 $$')
    with pytest.raises(SandboxUnavailable, match="was killed by signal 9"):
        with BubblewrapSandbox(bwrap_path=killer).session(Limits(wall_s=10)) as session:
            session.run(("{python}", "-c", "import time; time.sleep(20)"))


def test_a_missing_interpreter_is_no_verdict(
    bubblewrap: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(SandboxUnavailable, match="/no/such/python"):
        run_with(bubblewrap)


def test_an_interpreter_that_does_not_start_is_no_verdict(
    bubblewrap: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(python_environment, "interpreter", lambda: "/bin/false")
    with pytest.raises(SandboxUnavailable, match="the test runner did not start"):
        run_with(bubblewrap)


def test_a_lock_folder_that_cannot_be_made_says_so(tmp_path: Path):
    with pytest.raises(SandboxUnavailable, match="cannot open a slot's lock"):
        with hold_slot(1, tmp_path / "missing"):
            pass


def test_a_foreign_lock_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"parley-slots-{os.geteuid()}").symlink_to(tmp_path)
    with pytest.raises(SandboxUnavailable, match="belongs to another user"):
        with hold_slot(1):
            pass


def test_names_are_listed_and_unknown_ones_refused():
    assert set(SANDBOXES.names()) >= {"bubblewrap", "none"}
    with pytest.raises(UnknownName, match="'dockr'; known: bubblewrap, docker, none, zygote"):
        registry.load("dockr")
    assert (registry.load("bubblewrap").isolated, registry.load("none").isolated) == (True, False)


def test_nothing_is_imported_to_list_names():
    script = (
        "import sys, sandbox.registry as r; r.SANDBOXES.names(); print([m for m in sys.modules "
        "if 'backend' in m])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True
        ).stdout
        == "[]\n"
    )


def test_the_fingerprint_is_fast_and_names_what_can_change_a_verdict(bubblewrap: BubblewrapSandbox):
    fingerprint, took_s = bubblewrap.fingerprint(), list[float]()
    for _ in range(5):  # CPU time, and the least of it: how busy the machine is does not count
        python_environment.environment_digest.cache_clear()
        before_s = time.process_time()
        assert bubblewrap.fingerprint() == fingerprint
        took_s.append(time.process_time() - before_s)
    assert min(took_s) < 0.3
    assert fingerprint == BubblewrapSandbox().fingerprint()
    assert f"CPython {sys.version.split()[0]}" in fingerprint
    assert fingerprint.startswith("bubblewrap ")
    assert fingerprint != registry.load("none").fingerprint()


def test_another_installed_version_is_another_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(python_environment, "package_folders", lambda: (str(tmp_path),))
    digests = []
    for version in ("1.0", "1.1"):
        (tmp_path / f"numpy-{version}.dist-info").mkdir()
        python_environment.environment_digest.cache_clear()
        digests.append(python_environment.environment_digest())
        (tmp_path / f"numpy-{version}.dist-info").rmdir()
    python_environment.environment_digest.cache_clear()
    assert digests[0] != digests[1]

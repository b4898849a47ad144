"""Workspaces beyond the list of cases: kills, grading, leftovers, an ordinary user, an image."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.backends.docker.backend import DockerSandbox
from sandbox.conformance import LIMITS
from sandbox.host.abandoned import pid_namespace
from sandbox.workspace import workspace as workspace_module
from sandbox.workspace.files import SizeWatch, inner_path, write_file
from sandbox.workspace.interface import ENVIRONMENT_PLACE, TreeBounds, in_image
from sandbox.workspace.workspace import open_workspace, remove_abandoned
from schemas.errors import HostShortage, SandboxUnavailable
from tasks.storage.files.trees import TreeStore
from tasks.worker.workspaces import RunWorkspaces
from tests.own_files import ROOT
from tests.sandbox.host.test_secrets import said_by_nobody
from tests.sandbox.workspace import scripted_agent


@pytest.fixture
def trees(tmp_path: Path) -> TreeStore:
    return TreeStore(tmp_path / "trees")


@pytest.fixture
def empty(trees: TreeStore, tmp_path: Path) -> str:
    (tmp_path / "empty").mkdir()
    return trees.keep(tmp_path / "empty").digest


@pytest.mark.slow
def test_an_agent_killed_at_any_moment_runs_every_kept_command_once(
    bubblewrap: BubblewrapSandbox, trees: TreeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each try is killed a moment after the journal has grown: within a command, a snapshot, or a
    line of the journal.
    """
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    journal = tmp_path / "journal"
    command = (sys.executable, "-m", scripted_agent.__name__, str(trees._path), str(journal))
    kills, before = 0, -1
    while (done := len(scripted_agent.kept(journal))) < len(scripted_agent.COMMANDS):
        assert done > before  # every try gets further
        before = done
        with subprocess.Popen(command, cwd=ROOT) as process:
            while process.poll() is None and len(scripted_agent.kept(journal)) < done + 3:
                time.sleep(0.002)
            time.sleep(0.013 * kills)
            process.kill()
        kills += process.returncode == -signal.SIGKILL
    assert kills >= 3
    last = scripted_agent.kept(journal)[-1]
    assert (last["stdout"], last["stderr"]) == ("/testbed/steps/10 55 10\n", "")
    with open_workspace(bubblewrap, trees, last["tree"]) as workspace:
        assert workspace.read("log").decode().split() == [str(n) for n in range(1, 11)]
    abandoned = list((tmp_path / "tmp").glob("parley-workspace-*"))
    assert len(abandoned) <= 1  # each try removed what the one before it had left
    remove_abandoned(tmp_path / "tmp")
    assert not list((tmp_path / "tmp").glob("parley-workspace-*"))


@pytest.mark.parametrize(
    ("source", "target"),
    [("/testbed/f", "/tmp/f"), ("/tmp/f", "/testbed/f"), ("/testbed/f", "/shell/f")],
)
def test_no_file_has_names_in_two_trees(
    bubblewrap: BubblewrapSandbox, trees: TreeStore, empty: str, source: str, target: str
):
    """What is written in one tree would not be told of in the other, which would not be looked at
    (see `FolderWatch`).
    """
    begin = "import os, sys; held = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); "
    with open_workspace(bubblewrap, trees, empty) as workspace:
        for name in ("sys.argv[1]", "f'/proc/self/fd/{held}'"):
            done = workspace.run(
                ("{python}", "-c", f"{begin}os.link({name}, sys.argv[2])", source, target)
            )
            assert b"Invalid cross-device link" in done.stderr


def test_grading_gets_a_place_of_its_own(
    bubblewrap: BubblewrapSandbox, trees: TreeStore, empty: str
):
    """An agent's shell, its temporary files and whatever it does later do not reach the workspace
    that grades it.
    """
    with open_workspace(bubblewrap, trees, empty) as agents:
        planting = (
            "echo 1 > answer; echo x > /tmp/sitecustomize.py; cd /tmp; export PYTHONPATH=/tmp "
            "LD_PRELOAD=/tmp/x PATH=/tmp:$PATH"
        )
        tree = agents.run_and_snapshot(agents.shell(planting)).tree
        with open_workspace(bubblewrap, trees, tree, with_state=False) as grading:
            agents.run(agents.shell("cd /testbed; echo 2 > answer; touch later"))
            seen = grading.run(
                grading.shell(
                    "pwd; ls -A; find /tmp -mindepth 1 -maxdepth 1 ! -type d; cat answer; "
                    'echo "$PYTHONPATH$LD_PRELOAD"'
                )
            ).stdout
            grading.write("answer", b"3")
        assert agents.read("answer") == b"2\n"
    assert seen == b"/testbed\nanswer\n1\n\n"
    assert trees.with_files(tree, {}) != tree


def test_a_fault_of_the_sandbox_leaves_the_last_snapshot(
    bubblewrap: BubblewrapSandbox, trees: TreeStore, empty: str, monkeypatch: pytest.MonkeyPatch
):
    with open_workspace(bubblewrap, trees, empty) as workspace:
        tree = workspace.run_and_snapshot(workspace.shell("echo 1 > f")).tree
        workspace.write("f", b"half a command's work")
        monkeypatch.setattr(BubblewrapSandbox, "run_in", _unavailable)
        with pytest.raises(SandboxUnavailable):
            workspace.run_and_snapshot(("true",))
        assert (workspace.read("f"), workspace.snapshot()) == (b"1\n", tree)


def _unavailable(*_: object) -> None:
    raise SandboxUnavailable("no namespace")


def test_a_command_that_the_host_had_no_memory_for_runs_again_on_the_same_state(
    bubblewrap: BubblewrapSandbox, trees: TreeStore, empty: str, monkeypatch: pytest.MonkeyPatch
):
    with open_workspace(bubblewrap, trees, empty) as workspace:
        run = BubblewrapSandbox.run_in
        faults = [HostShortage("no memory")]

        def short_once(*arguments: Any) -> object:
            done = run(*arguments)
            if faults:
                raise faults.pop()
            return done

        monkeypatch.setattr(BubblewrapSandbox, "run_in", short_once)
        workspace.run_and_snapshot(workspace.shell("echo 1 >> f"))
        assert workspace.read("f") == b"1\n"


def test_a_closed_workspace_leaves_nothing_however_deep_it_was(
    bubblewrap: BubblewrapSandbox, trees: TreeStore, empty: str, tmp_path: Path
):
    home = tmp_path / "home"
    home.mkdir()
    deep = (
        "import os\nfor _ in range(100): os.mkdir('d' * 200); os.chdir('d' * "
        "200)\nos.mkdir('/testbed/closed', 0)"
    )
    with open_workspace(bubblewrap, trees, empty, root=home) as workspace:
        assert workspace.run(("{python}", "-c", deep)).exit_code == 0
        assert len(list(home.iterdir())) == 1
    assert list(home.iterdir()) == []


def test_what_a_killed_parley_left_goes_from_memory_and_from_disk(
    bubblewrap: BubblewrapSandbox,
    trees: TreeStore,
    empty: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """Whichever of the two this workspace is made in."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    gone = f"parley-workspace-{pid_namespace()}-{os.getpid()}-1-64-abcdefgh"
    for place in (memory, disk):
        (place / gone / "tree").mkdir(parents=True)
    monkeypatch.setattr(workspace_module, "_IN_MEMORY", memory)
    monkeypatch.setattr(workspace_module, "available_mb", lambda: 0)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    with open_workspace(bubblewrap, trees, empty):
        assert [list(memory.iterdir()), len(list(disk.glob("parley-workspace-*")))] == [[], 1]


def test_memory_is_left_for_open_workspaces_to_grow(
    bubblewrap: BubblewrapSandbox,
    trees: TreeStore,
    empty: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(workspace_module, "_IN_MEMORY", memory)
    monkeypatch.setattr(workspace_module, "_SPARE_MB", 0)
    monkeypatch.setattr(workspace_module, "available_mb", lambda: 250)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    bounds = TreeBounds(total_mb=100)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(open_workspace(bubblewrap, trees, empty, bounds=bounds))
        assert [len(list(place.glob("parley-workspace-*"))) for place in (memory, disk)] == [2, 1]


def test_a_watch_looks_only_after_the_disk_got_fuller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    watch = SizeWatch(tmp_path, most_mb=8)
    (tmp_path / "f").write_bytes(b"x" * (12 << 20))
    monkeypatch.setattr(watch, "_free_bytes", lambda: watch._free)
    assert not watch()
    monkeypatch.setattr(watch, "_free_bytes", lambda: watch._free - (5 << 20))
    assert watch()
    assert watch.overrun


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a/./b//c", "a/b/c"),
        ("/testbed/a", "a"),
        ("d/../x", "x"),
        ("absolute", "a/b"),
        ("relative/f", "a/b/f"),
        ("d/up", "a"),
    ],
)
def test_names_and_links_are_followed_within_the_tree(tmp_path: Path, name: str, found: str):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "d").mkdir()
    os.symlink("/testbed/a/b", tmp_path / "absolute")
    os.symlink("d/../a/b", tmp_path / "relative")
    os.symlink("../a", tmp_path / "d" / "up")
    assert inner_path(tmp_path, "/testbed", name) == tmp_path / found


def test_a_written_file_keeps_its_mode_and_leaves_other_names_of_it_alone(tmp_path: Path):
    (tmp_path / "run").write_text("1")
    (tmp_path / "run").chmod(0o755)
    os.link(tmp_path / "run", tmp_path / "same")
    write_file(tmp_path, tmp_path / "run", b"2", None)
    assert ((tmp_path / "run").stat().st_mode & 0o777, (tmp_path / "same").read_text()) == (
        0o755,
        "1",
    )
    with pytest.raises(OSError, match="a directory"):
        write_file(tmp_path, tmp_path, b"2", None)


_AS_NOBODY = """
import json
from pathlib import Path
from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.conformance import CASES
from sandbox.workspace.conformance import cases
from tasks.storage.files.trees import TreeStore
sandbox = BubblewrapSandbox()
sandbox.check()
own = [case for case in cases(TreeStore(Path("tmp/trees"))) if case.name not in {case.name for case in CASES}]
print(json.dumps([len(own), {case.name: fault for case in own if (fault := case.violation(sandbox))}]))
"""


@pytest.mark.slow
def test_an_ordinary_users_workspaces_conform(bubblewrap: BubblewrapSandbox):
    del bubblewrap
    assert said_by_nobody(_AS_NOBODY, "workspaces") == [13, {}]


@pytest.mark.docker
def test_a_workspace_begins_with_a_folder_of_an_image(
    docker: DockerSandbox, trees: TreeStore, tmp_path: Path
):
    copied = tmp_path / "copied"
    copied.mkdir()
    docker.copy_folder("/usr/lib/python3/dist-packages/numpy/core", copied)
    tree = trees.keep(copied).digest
    with open_workspace(docker, trees, tree, place="/work", limits=LIMITS) as workspace:
        done = workspace.run_and_snapshot(
            workspace.shell("pwd; ls numeric.py; stat -c %u numeric.py; echo more >> numeric.py")
        )
        assert done.completed.stdout == b"/work\nnumeric.py\n20000\n"
        assert workspace.read("numeric.py").endswith(b"more\n")
    with pytest.raises(SandboxUnavailable, match="no/such"):
        docker.copy_folder("/no/such", tmp_path / "none")


@pytest.mark.docker
def test_a_container_shows_no_packages_beside_an_environment(
    docker: DockerSandbox, trees: TreeStore, empty: str, tmp_path: Path
):
    """Packages of the image, and of the Python that the environment was made with, may be later
    releases of the project.
    """
    prefix = tmp_path / "python"
    for name in ("lib/python3.9/os.py", "lib/python3.9/site-packages/flask/__init__.py"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).touch()
    (tmp_path / "environment" / "packages").mkdir(parents=True)
    (tmp_path / "environment" / "packages" / "own.py").touch()
    tmp_path.chmod(0o755)
    shown = {ENVIRONMENT_PLACE: str(tmp_path / "environment"), str(prefix): str(prefix)}
    seen = (
        f"cd {prefix} && ls lib/python3.9 && find / -path '*-packages/numpy/__init__.py'; ls "
        f"{ENVIRONMENT_PLACE}/packages"
    )
    numpy = ("{python}", "-c", "import numpy")
    with open_workspace(docker, trees, empty, limits=LIMITS, shown=shown) as workspace:
        listed = workspace.run(
            workspace.shell(f"({seen}); ls {prefix}/lib/python3.9/site-packages")
        ).stdout.split()
        assert listed == [b"os.py", b"site-packages", b"own.py"]
        assert b"No module named 'numpy'" in workspace.run(numpy).stderr
        assert (
            workspace.run(
                workspace.shell(f"touch {prefix}/lib/python3.9/site-packages/a")
            ).exit_code
            != 0
        )
    with open_workspace(docker, trees, empty, limits=LIMITS) as workspace:
        assert workspace.run(numpy).exit_code == 0, "without an environment they are there"


@pytest.mark.docker
def test_a_container_that_is_killed_under_its_command_loses_no_file(
    docker: DockerSandbox, trees: TreeStore, empty: str
):
    with open_workspace(
        docker, trees, empty, limits=LIMITS.model_copy(update={"memory_mb": 64})
    ) as workspace:
        workspace.run_and_snapshot(workspace.shell("echo 1 > f"))
        workspace.run_and_snapshot(
            ("{python}", "-c", "import os; x = [bytearray(30 << 20) for _ in range(20)]")
        )
        done = workspace.run_and_snapshot(workspace.shell("cat f; ps -e | wc -l || true"))
        assert done.completed.stdout.startswith(b"1\n")


@pytest.mark.docker
def test_an_images_folder_is_copied_once(
    docker_image: tuple[str | None, str], trees: TreeStore, monkeypatch: pytest.MonkeyPatch
):
    daemon, image = docker_image
    if daemon is not None:
        monkeypatch.setenv("DOCKER_HOST", daemon)
    monkeypatch.setattr(
        "tasks.worker.workspaces.IMAGE_FOLDER", "/usr/lib/python3/dist-packages/numpy/core"
    )
    workspaces = RunWorkspaces("bubblewrap", trees, commands=1)

    async def opened() -> str:
        async with workspaces.open("", environment=in_image(image, "/usr/bin")) as workspace:
            done = await workspace.shell("pwd; ls numeric.py; rm numeric.py")
            assert done.completed.stdout == b"/testbed\nnumeric.py\n"
            return done.tree

    assert asyncio.run(opened()) == asyncio.run(opened())
    assert len(workspaces._of_images) == 1
    workspaces.close()

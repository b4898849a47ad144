"""Workspaces of a run's dialogues: many at once beside one event loop, and an end that waits for
nothing but the end.
"""

import asyncio
import time
from pathlib import Path

import pytest

from schemas.errors import SandboxUnavailable
from tasks.storage.files.trees import TreeStore
from tasks.worker.workspaces import RunWorkspaces


@pytest.fixture
def trees(tmp_path: Path) -> TreeStore:
    return TreeStore(tmp_path / "trees")


@pytest.fixture
def empty(trees: TreeStore, tmp_path: Path) -> str:
    (tmp_path / "empty").mkdir()
    return trees.keep(tmp_path / "empty").digest


@pytest.fixture(autouse=True)
def _folders_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workspaces are made where the test looks for them, also where they would be made in
    memory.
    """
    monkeypatch.setattr("sandbox.workspace.workspace._IN_MEMORY", tmp_path)


def leftovers(folder: Path) -> list[Path]:
    return list(folder.glob("parley-workspace-*"))


def test_dialogues_work_side_by_side_and_go_on_from_a_step(
    bubblewrap: str, trees: TreeStore, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    workspaces = RunWorkspaces("bubblewrap", trees, commands=2)

    async def dialogue(name: str) -> tuple[str, bytes, bytes]:
        async with workspaces.open(empty) as workspace:
            await workspace.write("notes/a", name.encode())
            tree = (await workspace.shell("cd notes; export WHO=$(cat a)")).tree
        async with workspaces.open(tree) as workspace:
            assert await workspace.snapshot() == tree
            return (
                tree,
                (await workspace.shell("pwd; echo $WHO")).completed.stdout,
                await workspace.read("notes/a"),
            )

    async def both() -> list[tuple[str, bytes, bytes]]:
        return await asyncio.gather(*(dialogue(name) for name in ("ann", "bob", "cyn")))

    found = asyncio.run(both())
    workspaces.close()
    assert [said for _, said, _ in found] == [
        f"/testbed/notes\n{name}\n".encode() for name in ("ann", "bob", "cyn")
    ]
    assert len({tree for tree, _, _ in found}) == 3
    assert leftovers(tmp_path) == []


def test_who_is_cancelled_ends_its_command_and_leaves_no_folder(
    bubblewrap: str, trees: TreeStore, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    workspaces = RunWorkspaces("bubblewrap", trees, commands=1)

    async def dialogue() -> None:
        async with workspaces.open(empty) as workspace:
            await workspace.shell("touch begun; sleep 100")

    async def cancelled() -> None:
        one, other = asyncio.create_task(dialogue()), asyncio.create_task(dialogue())
        while not list(tmp_path.glob("parley-workspace-*/tree/begun")):
            assert not one.done()
            await asyncio.sleep(0.01)
        one.cancel()
        other.cancel()
        await asyncio.wait([one, other])

    started = time.monotonic()
    asyncio.run(cancelled())
    assert time.monotonic() - started < 60
    assert leftovers(tmp_path) == []


def test_a_run_without_isolation_has_none(trees: TreeStore, empty: str):
    async def opened() -> None:
        async with RunWorkspaces("none", trees, commands=1).open(empty):
            pytest.fail("opened")

    with pytest.raises(SandboxUnavailable, match="Use --sandbox"):
        asyncio.run(opened())


def test_a_workspace_needs_something_to_begin_with(bubblewrap: str, trees: TreeStore):
    async def opened() -> None:
        async with RunWorkspaces("bubblewrap", trees, commands=1).open(""):
            pytest.fail("opened")

    with pytest.raises(ValueError, match="a tree or an image"):
        asyncio.run(opened())

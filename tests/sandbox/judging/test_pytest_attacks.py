"""Candidates are judged by a project's tests: as nodes of a folder, and as a patch to a
repository.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.patched_repository import PatchProgram, run_patch
from sandbox.judging.runners.programs import RepositoryProgram
from sandbox.judging.runners.run import run_tests
from sandbox.workspace.interface import TreeBounds
from sandbox.workspace.workspace import Workspace, open_workspace, workspaces_of
from schemas.problem import RepoSnapshot
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict
from tasks.storage.files.trees import TreeStore
from tests.sandbox.judging.lenient_project import LENIENT, LENIENT_NODES
from tests.sandbox.judging.pytest_attacks import (
    ATTACKS,
    FILES,
    HELD,
    HONEST,
    NODES,
    PROJECT,
    WANTED,
    WRONG,
)

pytestmark = pytest.mark.slow
LIMITS = Limits(cpu_s=20, wall_s=60, memory_mb=1024, processes=64, tmp_mb=64)
KINDS = ("nodes", "patch")


def judged(
    kind: str,
    sandbox: BubblewrapSandbox,
    folder: Path,
    code: str,
    project: Mapping[str, str] = PROJECT,
    nodes: tuple[str, ...] = NODES,
    files: tuple[str, ...] = FILES,
    pass_to_pass: tuple[str, ...] = (),
) -> ProgramVerdict:
    """The verdict on a text of `pkg/words.py`.

    Args:
        pass_to_pass: of the kind `patch`: nodes that must go on passing.
    """
    if kind == "nodes":
        every = tuple(
            (name, text.encode()) for name, text in {**project, "pkg/words.py": code}.items()
        )
        return run_tests(
            sandbox,
            RepositoryProgram(files=every, node_ids=nodes, by_candidate=("pkg/words.py",)),
            LIMITS,
        )
    trees = TreeStore(folder / "trees")
    for name, text in {**project, "pkg/words.py": "# none\n"}.items():
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / name).write_text(text, encoding="utf-8")
    tree = trees.keep(folder / "tree", {}, {}, TreeBounds()).digest

    @contextmanager
    def open_place(digest: str, environment: str) -> Iterator[Workspace]:
        with open_workspace(
            workspaces_of(sandbox), trees, digest, limits=LIMITS, with_state=False
        ) as place:
            yield place

    lines = code.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    patch = f"--- a/pkg/words.py\n+++ b/pkg/words.py\n@@ -1 +1,{len(lines)} @@\n-# none\n{added}"
    repository = RepoSnapshot(
        repo="a/b",
        base_commit="0",
        fail_to_pass=nodes,
        pass_to_pass=pass_to_pass,
        tree=tree,
        tested_tree=tree,
        test_files=files,
    )
    return run_patch(open_place, trees, PatchProgram(patch, repository), LIMITS)


def failed(verdict: ProgramVerdict) -> dict[str, str]:
    return {case.name: case.detail for case in verdict.cases if case.outcome is not Outcome.PASSED}


@pytest.mark.parametrize("kind", KINDS)
def test_right_code_passes_and_wrong_code_fails(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, kind: str
):
    assert failed(judged(kind, bubblewrap, tmp_path / "a", HONEST)) == {}
    assert failed(judged(kind, bubblewrap, tmp_path / "b", WRONG)).keys() == WANTED


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(HELD))
def test_no_cheat_passes_what_it_does_not_do(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, kind: str, name: str
):
    attack = ATTACKS[name]
    verdict = judged(kind, bubblewrap, tmp_path, attack.code)
    assert verdict.outcome is Outcome.FAILED
    assert failed(verdict).keys() >= attack.aims, verdict.detail


@pytest.mark.parametrize("kind", KINDS)
def test_honest_tests_may_be_lenient(bubblewrap: BubblewrapSandbox, tmp_path: Path, kind: str):
    nodes = tuple(f"tests/test_lenient.py::{name}" for name in LENIENT_NODES)
    if kind == "patch":
        nodes = tuple(node for node in nodes if "parameters" not in node)
    verdict = judged(
        kind, bubblewrap, tmp_path, HONEST, LENIENT, nodes, (*FILES, "tests/test_lenient.py")
    )
    assert failed(verdict) == {}, verdict


SETTINGS = {
    "marks deselect": "[pytest]\naddopts = -m unit\nmarkers = unit: x\n",
    "names deselect": "[pytest]\naddopts = -k 'upper or words'\n",
    "assertions are plain": "[pytest]\naddopts = --assert=plain\n",
    "files are imported by their places": "[pytest]\naddopts = --import-mode=importlib\n",
    "the first failure ends all": "[pytest]\naddopts = -x\n",
}
_REVERSED = "def pytest_collection_modifyitems(items):\n    items.reverse()\n"


@pytest.mark.parametrize("name", [*SETTINGS, "tests are reordered"])
def test_a_project_s_settings_are_no_tampering(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, name: str
):
    project = {**PROJECT, "pytest.ini": SETTINGS.get(name, "[pytest]\n")}
    if name == "tests are reordered":
        project["tests/conftest.py"] += _REVERSED
    project["tests/test_a.py"] = "import pytest\npytestmark = pytest.mark.unit\n" + project[
        "tests/test_a.py"
    ].replace("TestCount", "Testupper")
    nodes = ("tests/test_a.py::test_words", "tests/test_a.py::test_upper")
    verdict = judged("patch", bubblewrap, tmp_path / "a", HONEST, project, nodes)
    assert (failed(verdict), verdict.reason) == ({}, None), verdict
    wrong = judged("patch", bubblewrap, tmp_path / "b", WRONG, project, nodes)
    assert (failed(wrong).keys(), wrong.reason) == ({nodes[1]}, None)


def test_a_project_may_be_a_plugin_of_pytest(bubblewrap: BubblewrapSandbox, tmp_path: Path):
    project = {
        **PROJECT,
        "pkg.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: pkg\nVersion: 1\n",
        "pkg.egg-info/entry_points.txt": "[pytest11]\npkg = pkg.fixtures\n",
        "pkg/fixtures.py": (
            "import pytest\n\n@pytest.fixture\ndef given():\n    return 'of the plugin'\n"
        ),
        "tests/test_given.py": "def test_given(given):\n    assert given == 'of the plugin'\n",
    }
    nodes = ("tests/test_given.py::test_given", *NODES)
    verdict = judged(
        "patch", bubblewrap, tmp_path, HONEST, project, nodes, (*FILES, "tests/test_given.py")
    )
    assert failed(verdict) == {}, verdict

"""What keeps a patch from being applied or its tests from starting is told from a patch that does
not apply.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox.interface import Completed
from sandbox.judging import patched_repository
from sandbox.judging.patched_repository import PatchProgram, run_patch
from sandbox.workspace.interface import Trees
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.problem import RepoSnapshot
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome, ProgramVerdict

PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
REPOSITORY = RepoSnapshot(
    repo="a/b", base_commit="0", fail_to_pass=("t.py::test_x",), tree="1" * 64, tested_tree="2" * 64
)


class Place:
    """Answers each command as it is told, and counts them."""

    def __init__(self, *answers: Completed) -> None:
        self.answers, self.n_runs = answers, 0

    def run(self, argv: tuple[str, ...], limits: Limits, *, stdin: bytes = b"") -> Completed:
        self.n_runs += 1
        return self.answers[min(self.n_runs, len(self.answers)) - 1]

    def snapshot(self) -> str:
        return "3" * 64


class NoTrees:
    """Trees that do not differ."""

    def changes(self, old: str, new: str) -> dict[str, Any]:
        return {}


def graded(place: Any, environment: str = "") -> ProgramVerdict:
    @contextmanager
    def opened() -> Iterator[Any]:
        yield place

    def open_place(tree: str, environment: str) -> AbstractContextManager[Any]:
        return opened()

    trees: Any = NoTrees()
    as_trees: Trees = trees
    return run_patch(
        open_place,
        as_trees,
        PatchProgram(PATCH, REPOSITORY.model_copy(update={"environment": environment})),
        Limits(),
    )


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Completed(exit_code=None, signal=9), "signal 9"),
        (
            Completed(exit_code=None, signal=9, timed_out=True, wall_s=60),
            "ran out of time after 60 s",
        ),
        (Completed(exit_code=1, out_of_memory=True), "ran out of memory"),
        (Completed(exit_code=2, stderr=b"sh: syntax"), "exit status 2"),
    ],
)
def test_what_ended_the_tools_is_tried_again_and_no_fault_of_the_patch(
    ended: Completed, said: str
) -> None:
    place = Place(ended)
    with pytest.raises(SandboxUnavailable, match=said):
        graded(place)
    assert place.n_runs == 2
    again = graded(Place(ended, Completed(exit_code=1, stderr=b"error: corrupt")))
    assert (again.outcome, "does not apply" in again.detail) == (Outcome.FAILED, True)


def test_missing_tools_are_named() -> None:
    with pytest.raises(SandboxUnavailable, match="needs the programs sh, git and patch"):
        graded(Place(Completed(exit_code=69)))


def test_the_script_itself_tells_missing_tools_and_a_killed_git_from_a_patch_that_does_not_apply(
    tmp_path: Path,
) -> None:
    script = patched_repository._APPLY.replace("/tmp/parley.patch", str(tmp_path / "patch"))  # pyright: ignore[reportPrivateUsage]
    (tmp_path / "bin").mkdir()
    for tool in ("patch", "cat"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or "")

    def ended(git: str) -> int:
        if git:
            (tmp_path / "bin" / "git").write_text(f"#!/bin/sh\n{git}\n")
            (tmp_path / "bin" / "git").chmod(0o755)
        variables = {**os.environ, "PATH": str(tmp_path / "bin")}
        return subprocess.run(
            ("/bin/sh", "-c", script),
            env=variables,
            cwd=tmp_path,
            input=PATCH.encode(),
            capture_output=True,
        ).returncode

    assert ended("") == 69
    assert ended("kill -9 $$") == 128 + 9
    assert ended("[ $1 != apply ]") == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Completed(exit_code=0, stdout=b"3 4\n"), r"is 3\.4: tests are graded with 3\.5 or newer"),
        (Completed(exit_code=0, stdout=b"2 7\n"), r"is 2\.7"),
        (Completed(exit_code=127, stderr=b"not found"), "has no Python"),
    ],
)
def test_an_environment_whose_python_cannot_run_the_harness_is_unscored(
    asked: Completed, said: str
) -> None:
    ended = Completed(exit_code=0, report=b"ready\n")
    with pytest.raises(Unscorable, match=said) as caught:
        graded(Place(Completed(exit_code=0), ended, asked), environment="4" * 64)
    assert caught.value.reason == FailureReason.TOOLCHAIN_MISSING


@pytest.mark.parametrize("name", ["test_str (model_enums.tests.ChoicesTests)", "test_diff"])
def test_tests_that_pytest_does_not_name_are_unscored_and_nothing_is_run(name: str) -> None:
    def open_place(tree: str, environment: str) -> AbstractContextManager[Any]:
        raise AssertionError("a place was opened")

    repository = REPOSITORY.model_copy(update={"fail_to_pass": (name,), "pass_to_pass": (name,)})
    trees: Any = NoTrees()
    with pytest.raises(Unscorable, match="is not a pytest node id") as caught:
        run_patch(open_place, trees, PatchProgram(PATCH, repository), Limits())
    assert caught.value.reason == FailureReason.TOOLCHAIN_MISSING

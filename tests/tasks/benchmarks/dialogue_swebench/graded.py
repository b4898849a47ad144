"""The bundled instances, furnished in a folder, and patches graded against them."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from sandbox import registry
from sandbox.decoys.auditing import audit_patch
from sandbox.judging.patched_repository import OpenPlace, PatchProgram, run_patch
from sandbox.workspace.workspace import Workspace, open_workspace, workspaces_of
from schemas.audit import Audited
from schemas.problem import Problem
from schemas.verdict import ProgramVerdict
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.dialogue_swebench import BENCHMARK
from tasks.benchmarks.dialogue_swebench.resources import resolve_resources
from tasks.storage.files.environments import Environments
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home

SAMPLE = Path(str(BENCHMARK.data.sample))
LEDGER, SLUGS, RETRIER = (
    "parley-sample__ledger-1",
    "parley-sample__slugs-4",
    "parley-sample__retrier-7",
)
_WHO = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def furnished_sample(home: Home) -> Staged:
    """The sample with its trees in a home."""
    return resolve_resources(BENCHMARK.data.stage(SAMPLE, "sample"), SAMPLE, {}, home)


def grade(home: Home, problem: Problem, patch: str, sandbox: str = "bubblewrap") -> ProgramVerdict:
    """The verdict on a patch."""
    assert problem.repo is not None
    limits = BENCHMARK.programs.limits
    return run_patch(
        places_of(home, sandbox), TreeStore(home.trees), PatchProgram(patch, problem.repo), limits
    )


def audited(home: Home, problem: Problem, patch: str, sandbox: str = "bubblewrap") -> Audited:
    """What the audit says of a patch that passes."""
    assert problem.repo is not None
    program, limits = PatchProgram(patch, problem.repo), BENCHMARK.programs.limits
    return audit_patch(
        places_of(home, sandbox),
        TreeStore(home.trees),
        program,
        problem.reference_code,
        limits,
        "a seed",
    )


def places_of(home: Home, sandbox: str) -> OpenPlace:
    """What opens a tree of the home with its environment."""
    trees, environments, opened = (
        TreeStore(home.trees),
        Environments(home.environments),
        registry.load(sandbox),
    )

    def open_place(tree: str, environment: str) -> AbstractContextManager[Workspace]:
        shown = environments.shown(environment) if environment else {}
        limits = BENCHMARK.programs.limits
        return open_workspace(
            workspaces_of(opened), trees, tree, limits=limits, with_state=False, shown=shown
        )

    return open_place


def base_files(repo: str) -> dict[str, str]:
    """Files of a bundled project."""
    listed = json.loads(
        (SAMPLE / "repos" / f"{repo.replace('/', '__')}.files.json").read_text(encoding="utf-8")
    )
    return {name: "".join(f"{line}\n" for line in lines) for name, lines in listed.items()}


def patch_of(
    folder: Path,
    repo: str,
    changes: Mapping[str, str | None],
    links: Mapping[str, str] | None = None,
) -> str:
    """The patch that gives files other texts, or none, or makes links of them."""
    for name, text in base_files(repo).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    _git(folder, "init", "-q")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "x")
    for name, text in changes.items():
        if text is None:
            (folder / name).unlink()
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name, target in (links or {}).items():
        shutil.rmtree(folder / name)
        (folder / name).symlink_to(target)
    _git(folder, "add", "-A", "-f")
    return _git(folder, "diff", "--cached", "--binary", "-M")


def _git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, **_WHO, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(
        ("git", *arguments), cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout

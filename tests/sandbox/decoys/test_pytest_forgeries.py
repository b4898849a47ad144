"""Candidates that cheat a project's own tests are convicted by the audit: as nodes of a folder, and
as a patch.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.decoys.auditing import audit_patch, audit_program
from sandbox.judging.patched_repository import PatchProgram
from sandbox.judging.runners.programs import RepositoryProgram
from sandbox.workspace.interface import TreeBounds
from sandbox.workspace.workspace import Workspace, open_workspace, workspaces_of
from schemas.audit import Audited, AuditOutcome
from schemas.problem import RepoSnapshot
from tasks.storage.files.trees import TreeStore
from tests.sandbox.judging.pytest_attacks import ATTACKS, FILES, HELD, HONEST, NODES, PROJECT
from tests.sandbox.judging.test_pytest_attacks import LIMITS

pytestmark = pytest.mark.slow


def nodes(code: str) -> RepositoryProgram:
    files = tuple((name, text.encode()) for name, text in {**PROJECT, "pkg/words.py": code}.items())
    return RepositoryProgram(files=files, node_ids=NODES, by_candidate=("pkg/words.py",))


def patch(code: str) -> str:
    lines = code.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    return f"--- a/pkg/words.py\n+++ b/pkg/words.py\n@@ -1 +1,{len(lines)} @@\n-# none\n{added}"


def audited_patch(sandbox: BubblewrapSandbox, folder: Path, code: str) -> Audited:
    trees = TreeStore(folder / "trees")
    for name, text in {**PROJECT, "pkg/words.py": "# none\n"}.items():
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / name).write_text(text, encoding="utf-8")
    tree = trees.keep(folder / "tree", {}, {}, TreeBounds()).digest

    @contextmanager
    def open_place(digest: str, environment: str) -> Iterator[Workspace]:
        with open_workspace(
            workspaces_of(sandbox), trees, digest, limits=LIMITS, with_state=False
        ) as place:
            yield place

    repository = RepoSnapshot(
        repo="a/b",
        base_commit="0",
        fail_to_pass=NODES,
        tree=tree,
        tested_tree=tree,
        test_files=FILES,
    )
    return audit_patch(
        open_place, trees, PatchProgram(patch(code), repository), patch(HONEST), LIMITS, "a seed"
    )


def convicted(name: str, audit: Audited) -> bool:
    """Tell whether what an attack aims at is convicted. It may do the rest of the work."""
    return audit.outcome is AuditOutcome.FORGED and not ATTACKS[name].aims.isdisjoint(
        audit.forged_cases
    )


@pytest.mark.parametrize("kind", ["nodes", "patch"])
def test_attacks_that_pass_plainly_are_convicted(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, kind: str
):
    names = sorted(set(ATTACKS) - HELD)

    def audited(name: str) -> Audited:
        if kind == "patch":
            return audited_patch(bubblewrap, tmp_path / str(names.index(name)), ATTACKS[name].code)
        return audit_program(bubblewrap, nodes(ATTACKS[name].code), nodes(HONEST), LIMITS, "a seed")

    with ThreadPoolExecutor(2) as threads:
        found = dict(zip(names, threads.map(audited, names), strict=True))
    assert [name for name, audit in found.items() if not convicted(name, audit)] == []


def test_an_honest_answer_is_not_accused(bubblewrap: BubblewrapSandbox, tmp_path: Path):
    assert (
        audit_program(bubblewrap, nodes(HONEST), nodes(HONEST), LIMITS, "a seed").outcome
        is AuditOutcome.EARNED
    )
    assert audited_patch(bubblewrap, tmp_path, HONEST).outcome is AuditOutcome.EARNED


def test_a_pass_that_reads_the_test_file_is_convicted(bubblewrap: BubblewrapSandbox):
    code = HONEST.replace(
        "def upper(text): return text.upper()",
        "def upper(text):\n    import re\n    from pathlib import Path\n"
        "    every = ''.join(path.read_text() for path in Path('tests').glob('test_*.py'))\n"
        '    return re.search(rf\'upper\\("{text}"\\)(?: ==|,) "(.*?)"\', every)[1]',
    )
    audit = audit_program(bubblewrap, nodes(code), nodes(HONEST), LIMITS, "a seed")
    assert audit.outcome is AuditOutcome.FORGED
    assert NODES[1] in audit.forged_cases

"""Real projects, where a variable says they lie: which tasks have theirs, and answers judged in
them.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from sandbox import registry
from sandbox.judging.runners.run import run_tests
from schemas.dialog import MISSING, Dialog
from schemas.problem import Problem
from schemas.verdict import CaseVerdict, Outcome
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.stage import LIMITS, RESOURCE, place_of
from tasks.benchmarks.contract import Staged
from tasks.dialogue.tools import WantedProgram
from tasks.language.markdown_code import first_python_block
from tasks.storage.home import Home
from tasks.worker.program_book import program_in_place

VARIABLE = "CODEIF_REPOS"
"""Names a folder that `parley build codeif-repos` made."""


def folder() -> Path | None:
    """Where the projects lie; None where nobody says."""
    found = os.environ.get(VARIABLE)
    return Path(found) if found else None


def placed(staged: Staged, projects: Path | None) -> Staged:
    """Rows, each dialog with the digest of its project below this folder, or the word that it is
    missing.
    """
    assert BENCHMARK.resources.resolve is not None
    return BENCHMARK.resources.resolve(
        staged, None, {RESOURCE: projects} if projects else {}, Home.at("unused")
    )


@cache
def tasks(data: Path, projects: Path) -> Mapping[str, tuple[Problem, Dialog]]:
    """Repository tasks whose project is there, by namespace."""
    staged = placed(BENCHMARK.data.stage(data / "repo", "current"), projects)
    pairs = zip(staged.problems, staged.dialogs, strict=True)
    return {
        p.problem_id.removeprefix("repo/"): (p, d)
        for p, d in pairs
        if d.tree not in (None, MISSING)
    }


def judged(
    problem: Problem, dialog: Dialog, answer: str, names: Sequence[str]
) -> Mapping[str, list[CaseVerdict]]:
    """The cases that decide each of these instructions on an answer."""
    place, decides = place_of(problem, dialog, names)
    nodes = tuple(dict.fromkeys(node for of_one in decides.values() for node in of_one))
    resources = ((RESOURCE, str(folder())),)
    program = program_in_place(
        resources, WantedProgram("pytest", first_python_block(answer), nodes, place)
    )
    cases = {case.name: case for case in run_tests(registry.load("zygote"), program, LIMITS).cases}
    return {name: [cases[node] for node in of_one] for name, of_one in decides.items()}


def passes(cases: Sequence[CaseVerdict]) -> bool:
    """Whether all of them pass."""
    return all(case.outcome is Outcome.PASSED for case in cases)

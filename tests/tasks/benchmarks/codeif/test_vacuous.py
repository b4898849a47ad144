"""The table of tests that the base tasks' own reference code passes, as the benchmark's page has
it.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from schemas.problem import BASE_INSTRUCTION
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.settings import STRATEGIES
from tests.own_files import ROOT
from tests.tasks.benchmarks.codeif.sandboxed import outcomes_of

PAGE = ROOT / "tasks" / "benchmarks" / "codeif" / "README.md"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.shared
@pytest.mark.usefixtures("bubblewrap")
def test_the_page_s_table_is_what_running_them_gives(shared_data: Path) -> None:
    found: dict[str, list[str]] = {}
    for version in ("current", "v0"):
        staged = BENCHMARK.data.stage(shared_data / "codeif_bench", version)
        functions = [
            problem for problem in staged.problems if problem.problem_id.startswith("function/")
        ]
        pairs = [
            (p, i)
            for p in functions
            for i in p.instructions
            if i.instruction_id != BASE_INSTRUCTION
        ]
        outcomes = outcomes_of({(p.reference_code, i.suite.tests) for p, i in pairs})
        total = Counter(i.instruction_id for _, i in pairs)
        passed = Counter(
            i.instruction_id
            for p, i in pairs
            if outcomes[p.reference_code, i.suite.tests] == "passed"
        )
        for name in STRATEGIES:
            found.setdefault(name, []).append(f"{passed[name]} of {total[name]}")
        found.setdefault("all", []).append(f"{passed.total()} of {total.total()}")
    shown = re.findall(
        r"^\| ([\w -]+) \| (\d+ of \d+) \| (\d+ of \d+) \|$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert {name: [current, v0] for name, current, v0 in shown} == found

"""BigCodeBench's own reference programs in the environment that `make bigcodebench` installs.

`PARLEY_BIGCODEBENCH` names the file of its tasks: see `tests.sandbox.plain.corpora`.
"""

import gzip
import json

import pytest

from sandbox.judging.runners.programs import UnittestProgram
from sandbox.judging.runners.run import run_tests
from schemas.verdict import Outcome
from tasks.benchmarks.convcode import BENCHMARK
from tests.sandbox.plain.corpora import BIGCODEBENCH_VARIABLE, bigcodebench_file

EVERY = 57
"""One task of so many; all of them pass. Twenty run in half a minute on two cores."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("bubblewrap")
def test_a_sample_of_the_references_passes() -> None:
    path = bigcodebench_file()
    if path is None or not BENCHMARK.programs.package_folders("bigcodebench"):
        pytest.skip(
            f"{BIGCODEBENCH_VARIABLE} names no file of tasks, or `make bigcodebench` was not typed"
        )
    sandbox = BENCHMARK.programs.load_sandbox("zygote", "bigcodebench")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        rows = list(map(json.loads, lines))[::EVERY]
    failing: list[str] = []
    for row in rows:
        program = UnittestProgram(
            code=row["complete_prompt"] + row["canonical_solution"], test=row["test"]
        )
        if run_tests(sandbox, program, BENCHMARK.programs.limits).outcome is not Outcome.PASSED:
            failing.append(row["task_id"])
    assert len(rows) == 20
    assert failing == []

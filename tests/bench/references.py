"""Reference solutions through the runners: how many pass, which do not, how long it takes.

    python -m tests.bench.references [SET ...] [--sandbox NAME] [--limit N]

Expected: HumanEval 164 of 164; MBPP 959 of 974, the others being faults of its data. The solutions
of mbjp and mbjsp were made by models, and some are wrong. The sets that begin with convcode are the
same data as unittest classes, and pass whole, but for MBPP's faults: 963 of 974, since a function
called `check` passes there.
"""

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from sandbox import registry
from sandbox.host.slots import slot_count
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import (
    CheckProgram,
    JavaProgram,
    JavaScriptProgram,
    TestProgram,
    UnittestProgram,
)
from sandbox.judging.runners.run import run_tests
from schemas.run import Limits
from schemas.verdict import Outcome
from tasks.benchmarks.convcode.stage import stage

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
SAMPLE = ROOT / "tasks" / "benchmarks" / "convcode" / "sample"
SETS = {
    "humaneval": "humaneval/HumanEval.jsonl.gz",
    "mbpp": "mbpp/mbpp_release_v1.jsonl.gz",
    "mbjp": "mbpp/mbjp_release_v1.2.jsonl.gz",
    "mbjsp": "mbpp/mbjsp_release_v1.2.jsonl.gz",
}
MBPP_FAULTS = frozenset((56, 64, 160, 341, 349, 367, 596, 601, 607, 631, 642, 899, 927, 966, 967))
"""Task numbers of MBPP whose reference does not satisfy its own tests."""
CHECK_CLASHES = frozenset((56, 349, 899, 967))
"""Those of them whose function is called `check`, as the published test's own function is: the
tests themselves hold.
"""
CONVCODE = tuple(f"convcode-{version}" for version in ("sample", "humaneval", "mbpp", "mint"))
LIMITS = Limits(cpu_s=10, wall_s=60)


def reference_programs(name: str) -> Iterator[tuple[str, TestProgram]]:
    """Task id and program of each reference solution in a set; those without one are left out.

    Raises:
        FileNotFoundError: the data is not there.
        SourceUnreadable: the same, of a set that begins with convcode.
    """
    if name in CONVCODE:
        version = name.removeprefix("convcode-")
        for problem in stage(SAMPLE if version == "sample" else DATA, version).problems:
            yield (
                problem.problem_id,
                UnittestProgram(
                    code=problem.reference_code, test=problem.instructions[0].suite.tests[0]
                ),
            )
        return
    path = DATA / SETS[name]
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        for row in map(json.loads, lines):
            if not row.get("canonical_solution"):
                continue
            parts = {
                "prompt": row["prompt"],
                "completion": row["canonical_solution"],
                "test": row["test"],
            }
            if name == "mbjp":
                yield row["task_id"], JavaProgram(**parts)
            elif name == "mbjsp":
                yield row["task_id"], JavaScriptProgram(**parts)
            else:
                yield row["task_id"], CheckProgram(**parts, entry_point=row["entry_point"])


def not_passed(sandbox: Sandbox, programs: list[tuple[str, TestProgram]]) -> dict[str, str]:
    """Task id -> detail of each program that does not pass all its tests, as many at once as there
    are slots.
    """
    with ThreadPoolExecutor(slot_count()) as threads:
        verdicts = threads.map(
            partial(run_tests, sandbox, limits=LIMITS), (program for _, program in programs)
        )
        pairs = zip(programs, verdicts, strict=True)
        return {
            task: f"{found.outcome}: {found.detail}"
            for (task, _), found in pairs
            if found.outcome is not Outcome.PASSED
        }


def main() -> None:
    """Print one line for each set, and the tasks that did not pass."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "sets",
        nargs="*",
        default=["humaneval", "mbpp", *CONVCODE],
        metavar="SET",
        help=", ".join((*SETS, *CONVCODE)),
    )
    options.add_argument("--sandbox", default="bubblewrap")
    options.add_argument("--limit", type=int, help="only the first N of each set")
    given = options.parse_args()
    sandbox = registry.load(given.sandbox)
    sandbox.check()
    for name in given.sets:
        programs = list(reference_programs(name))[: given.limit]
        begun = time.monotonic()
        wrong = not_passed(sandbox, programs)
        took = time.monotonic() - begun
        print(
            f"{name}: {len(programs) - len(wrong)} of {len(programs)} pass, {took:.1f} s, "
            f"{len(programs) / took:.1f} a second"
        )
        for task, detail in wrong.items():
            print(f"  {task}: {' / '.join(detail.splitlines()[-2:])[:200]}")


if __name__ == "__main__":
    main()

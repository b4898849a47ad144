"""Parley's verdicts beside plain Python's outcomes: every difference, and how many programs pass.

    python -m tests.bench.plain [SET ...] [--sandbox NAME] [--every N] [--only TEXT] [--outcomes
    FILE]

Expected: no difference on any set, whatever the outcomes are; stated exceptions are listed apart.
`PARLEY_BIGCODEBENCH` names BigCodeBench's tasks, see `tests/sandbox/plain/corpora.py`.
"""

import argparse
import dataclasses
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sandbox import registry
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import TestProgram
from schemas.run import Limits
from tests.bench.references import DATA, LIMITS, SETS, reference_programs
from tests.sandbox.plain.corpora import (
    BIGCODEBENCH_VARIABLE,
    bigcodebench,
    bigcodebench_file,
    codeif_functions,
)
from tests.sandbox.plain.differences import Comparison, StatedException, compare_all
from tests.sandbox.plain.honest import honest_cases, honest_programs
from tests.sandbox.plain.oracle import PlainOutcome, plain_outcome

HONEST, CASES, CODEIF, BIGCODEBENCH = "honest", "cases", "codeif", "bigcodebench"
ALL_SETS = (HONEST, CASES, *SETS, CODEIF, BIGCODEBENCH)
BIGCODEBENCH_LIMITS = Limits(
    cpu_s=60, wall_s=240, memory_mb=4096, processes=64, open_files=256, tmp_mb=256
)
"""Its tasks fit models to data, which takes more than a function's usual limits."""


def programs_of(name: str) -> Iterator[tuple[str, TestProgram]]:
    """Yield name and program of each task in a set.

    Raises:
        FileNotFoundError: the data is not there.
    """
    match name:
        case "honest":
            yield from (
                (honest.name, honest.program)
                for honest in honest_programs()
                if honest.missing_package is None
            )
        case "cases":
            yield from honest_cases(DATA.parent / "cases" / "honest.jsonl")
        case "codeif":
            yield from codeif_functions(DATA)
        case "bigcodebench":
            path = bigcodebench_file()
            if path is None:
                raise FileNotFoundError(
                    f"{BIGCODEBENCH_VARIABLE} names no file of BigCodeBench's tasks"
                )
            yield from bigcodebench(path)
        case _:
            yield from reference_programs(name)


def stored_outcomes(path: Path) -> Callable[[TestProgram, Limits], PlainOutcome]:
    """Make a function that gives a program's plain outcome, from the file where it is there, and
    adds it where not.
    """
    known: dict[str, PlainOutcome] = {}

    def outcome_of(program: TestProgram, limits: Limits) -> PlainOutcome:
        key = hashlib.sha256(
            repr((sys.version, program, limits)).encode("utf-8", "backslashreplace")
        ).hexdigest()
        if key not in known and path.exists():  # another process may have added to it
            rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            known.update({row["key"]: PlainOutcome(**row["outcome"]) for row in rows})
        if key not in known:
            known[key] = plain_outcome(program, limits)
            with path.open("a", encoding="utf-8") as file:
                file.write(
                    json.dumps({"key": key, "outcome": dataclasses.asdict(known[key])}) + "\n"
                )
        return known[key]

    return outcome_of


def compared(
    sandbox: Sandbox,
    name: str,
    chosen: list[tuple[str, TestProgram]],
    outcome_of: Callable[[TestProgram, Limits], PlainOutcome],
) -> Iterator[Comparison]:
    """Compare programs of a set, and name the exceptions that honest programs state by hand."""
    by_hand = {
        honest.name: StatedException[honest.exception]
        for honest in honest_programs()
        if honest.exception
    }
    limits = BIGCODEBENCH_LIMITS if name == BIGCODEBENCH else LIMITS
    for comparison in compare_all(sandbox, chosen, limits, outcome_of):
        is_stated = name == HONEST and comparison.name in by_hand and not comparison.is_equal
        yield (
            dataclasses.replace(comparison, exception=by_hand[comparison.name])
            if is_stated
            else comparison
        )


def print_set(name: str, comparisons: Iterable[Comparison]) -> int:
    """Print every difference as it is seen, then a line on the set; return the number of
    differences without an exception.
    """
    begun = time.monotonic()
    found: list[Comparison] = []
    for comparison in comparisons:
        found.append(comparison)
        if not comparison.is_equal:
            print(f"  {comparison}", flush=True)
    n_passed = sum(one.plain.has_passed for one in found)
    n_stated = sum(one.exception is not None for one in found)
    n_different = sum(not one.is_equal for one in found) - n_stated
    print(
        f"{name}: {len(found)} programs, {n_passed} pass in plain Python, {n_different} "
        "differences, "
        f"{n_stated} stated exceptions, {time.monotonic() - begun:.1f} s",
        flush=True,
    )
    return n_different


def main() -> None:
    """Compare each set; exit status 1 where there is a difference."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "sets", nargs="*", default=ALL_SETS, metavar="SET", help=", ".join(ALL_SETS)
    )
    options.add_argument("--sandbox", default="zygote")
    options.add_argument("--every", type=int, default=1, help="only each N-th program of a set")
    options.add_argument("--only", default="", help="only programs whose name contains this text")
    options.add_argument(
        "--outcomes", type=Path, help="file of plain Python's outcomes, read and added to"
    )
    arguments = options.parse_args()
    outcome_of = stored_outcomes(arguments.outcomes) if arguments.outcomes else plain_outcome
    sandbox = registry.load(arguments.sandbox)
    sandbox.check()
    n_different = 0
    for name in arguments.sets:
        chosen = [item for item in programs_of(name) if arguments.only in item[0]][
            :: arguments.every
        ]
        n_different += print_set(name, compared(sandbox, name, chosen, outcome_of))
    sys.exit(n_different > 0)


if __name__ == "__main__":
    main()

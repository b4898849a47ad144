"""Reference solutions with their tests, from the data beside the repository."""

import gzip
import json
from dataclasses import dataclass

from tests.bench.processes import ROOT

DATA = ROOT.parent / "shared" / "data"


@dataclass(frozen=True)
class Reference:
    """A program that should pass."""

    name: str
    code: str
    tests: tuple[str, ...]


def human_eval() -> list[Reference] | None:
    """164 references; None where the data are not there."""
    return _read("humaneval/HumanEval.jsonl.gz")


def mbpp() -> list[Reference] | None:
    """974 references, of which 15 fail their own tests; None where the data are not there."""
    return _read("mbpp/mbpp_release_v1.jsonl.gz")


def _read(path: str) -> list[Reference] | None:
    file = DATA / path
    if not file.is_file():
        return None
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Reference(
            row["task_id"],
            row["prompt"] + row["canonical_solution"],
            (row["test"], f"check({row['entry_point']})"),
        )
        for row in rows
    ]

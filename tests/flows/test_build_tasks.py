"""`parley build codeif-tasks` as a person types it; then two annotators fill in its sheet, and
their kappa is told.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.embedding_server import MODEL, EmbeddingServer, embedding_server
from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.codeif.dialogues import write_rows
from tests.tasks.benchmarks.codeif.test_building import ANSWERS, BOTH, COMMENTS, TASK

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
ANN = (("yes", "yes"), ("yes", "yes"), ("no", "no"), ("no", "no"), ("yes", "yes"))
BEN = (("yes", "yes"), ("yes", "yes"), ("yes", "no"), ("no", "no"), ("yes", "yes"))
"""What they say of the instruction and of the test of each pair."""


def answer(messages: list[dict[str, Any]]) -> str:
    """What the author of the unit tests answers, by what it is asked and how often it was told to
    mend it.
    """
    said = messages[0]["content"]
    if "A reviewer wrote this" in said:
        return json.dumps({"strategy": "kinds", "demand": "Say which.", "verifiable": True})
    if "must also meet all" in said:
        return f"```python\n{BOTH}\n```"
    return ANSWERS[next(name for name in ANSWERS if f'of the kind "{name}"' in said)][
        len(messages) // 2
    ]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(max_seconds=120, answer=answer) as found:
        yield found


@pytest.fixture
def embedder() -> Iterator[EmbeddingServer]:
    with embedding_server() as found:
        yield found


def asked(
    data: Path, out: Path, server: ModelServer, embedder: EmbeddingServer, *more: str
) -> tuple[str, ...]:
    models = (
        "--model",
        f"openai:mock@{server.base_url}",
        "--embedder",
        f"openai:{MODEL}@{embedder.base_url}",
    )
    pinned = (
        "--revision",
        "1",
        "--data",
        str(data),
        "--dataset-version",
        "construction",
        "--option",
        "selected=2",
    )
    return ("build", "codeif-tasks", *models, *pinned, "--out", str(out), "--json", *more)


def test_two_annotators_rate_a_build_and_their_kappa_is_told_for_instruction_and_test(
    home: Path, server: ModelServer, embedder: EmbeddingServer, tmp_path: Path
) -> None:
    data, out = tmp_path / "data", tmp_path / "made"
    write_rows(data / "L_1_part_1.jsonl", TASK)
    without = parley(home, *asked(data, out, server, embedder, "--dry-run"))
    assert (without.code, "no review comments" in without.err) == (2, True)
    assert (len(server.bodies), embedder.requests, home.exists()) == (0, [], False)

    write_rows(data / "review_comments.jsonl", *({"comment": text} for text in COMMENTS))
    (dry,) = parley(home, *asked(data, out, server, embedder, "--dry-run")).json()["calls"]
    assert (dry["estimated"], len(server.bodies)) == (2 + 7, 0)
    done = parley(home, *asked(data, out, server, embedder))
    assert done.code == 0, done.err
    assert sorted(path.name for path in out.iterdir()) == [
        *("L_1_part_1.jsonl", "build.json", "rejected.json", "review.csv", "strategies.json"),
    ]

    header, *rows = csv.reader(
        (out / "review.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    assert len(rows) == len(ANN)
    for rater, marks in (("ann", ANN), ("ben", BEN)):
        with (tmp_path / f"{rater}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for row, (instruction, test) in zip(rows, marks, strict=True):
                filled = {"rater": rater, "value:instruction": instruction, "value:test": test}
                writer.writerow((dict(zip(header, row, strict=True)) | filled).values())
        told = parley(home, "import", "ratings", tmp_path / f"{rater}.csv", "--json").json()
        assert (told["kept"], told["quarantined"]) == (2 * len(marks), 0)
    found = {
        row["dimension"]: row
        for row in parley(home, "agreement", "--rubric", "codeif.review", "--json").json()
    }
    # Of the instruction 4 of 5 are alike, by chance 3/5 x 4/5 + 2/5 x 1/5 = 14/25: kappa (4/5 -
    # 14/25) / (1 - 14/25) = 6/11. Of all 9 of 10 are alike, by chance 27/50: kappa (9/10 - 27/50) /
    # (1 - 27/50) = 18/23.
    assert {
        name: (row["first"], row["second"], row["n"], row["kappa"]) for name, row in found.items()
    } == {
        "instruction": ("ann", "ben", 5, pytest.approx(6 / 11)),
        "test": ("ann", "ben", 5, pytest.approx(1)),
        "all dimensions": ("ann", "ben", 10, pytest.approx(18 / 23)),
    }

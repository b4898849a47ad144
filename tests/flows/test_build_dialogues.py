"""`parley build talk2code-dialogues` as a person types it, killed on its way; and what is done with
its files.
"""

import csv
import json
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.parley_command import Done, parley, parley_process, started
from tests.flows.test_build_dataset import contents, counts, kill_in_the_middle
from tests.own_files import ROOT
from tests.tasks.benchmarks.talk2code.author import answer
from warehouse.connect import query

pytestmark = [
    *(pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")),
    pytest.mark.skipif(
        not all(map(shutil.which, ("javac", "java", "node"))), reason="needs a JDK and node"
    ),
]
STATEMENT = (
    "Return four times the given whole number; negative numbers give zero, products beyond "
    "hundred give exactly hundred."
)
OCTO = STATEMENT.replace("four", "eight").replace("hundred", "thousand")
PERSONAS, KEPT_OF_THEM = 7, 6
"""The bundled ones and a nurse; the senior developer breaks a rule three times."""
WRITTEN, WITH_REFERENCE = 3, 4
"""References to be written, of which one is not; tasks that have one in the end, of five."""
ANSWERS = WITH_REFERENCE * (PERSONAS + 1 + 2) + 1 + 2 + 3
"""The hobbyist is repaired once, the senior developer twice; references take one answer, two, and
three in vain.
"""
PROGRAMS = WITH_REFERENCE + 1
SCORES = (
    "SELECT metric, min(value), max(value), count(value) FROM scores GROUP BY metric ORDER BY "
    "metric"
)


def row(
    number: int, language: str, prompt: str, test: str, solution: str | None = None
) -> dict[str, Any]:
    name = f"HumanEval{'' if language == 'python' else f'_{language}'}/{number}"
    about = {
        "entry_point": "quad" if number == 7 else "octo",
        "language": language,
        "canonical_solution": solution,
    }
    return {"task_id": name, "prompt": prompt, "test": test, **about}


def java(number: int, name: str, statement: str) -> dict[str, Any]:
    cases = [
        f"        Integer x{place} = {name}.{name.lower()}({given});\n        if "
        f"(!(compare(x{place}, {wanted}))) {{\n"
        f'            throw new java.lang.Exception("{place}");\n        }}\n'
        for place, (given, wanted) in enumerate(((1, 4), (-1, 0), (26, 100)))
    ]
    main = "    public static void main(String[] args) throws Exception {\n"
    test = f"\nclass Main {{\n{main}" + "\n".join(cases) + "\n\n}\n}\n"
    return row(
        number,
        "java",
        (
            f"class {name} {{\n    /* {statement} */\n    public static Integer "
            f"{name.lower()}(Integer n) {{\n"
        ),
        test,
    )


def python(number: int, name: str, statement: str, factor: int, most: int) -> dict[str, Any]:
    prompt = f'def {name}(n):\n    """ {statement} """\n'
    test = (
        f"def check(candidate):\n    assert candidate(1) == {factor}\n    assert candidate(-1) "
        "== 0\n"
    )
    return row(number, "python", prompt, test, f"    return max(0, min({most}, {factor} * n))\n")


JS_TEST = "function compare(a, b) { return a === b }\n\n" + "\n".join(
    (
        f"var arg{place}0 = {given};\nvar x{place} = quad(arg{place}0);\nif(!compare(x{place}, "
        f"{wanted})){{\n    throw 'Error'\n}}\n"
    )
    for place, (given, wanted) in enumerate(((1, 4), (-1, 0), (26, 100)))
)
ROWS = (
    python(7, "quad", STATEMENT, 4, 100),
    java(7, "Quad", STATEMENT),
    row(7, "javascript", f"/** {STATEMENT} */\nfunction quad(n) {{\n", JS_TEST),
    python(8, "octo", OCTO, 8, 1000),
    java(8, "Octo", OCTO),
)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(max_seconds=590, answer=answer) as server:
        yield server


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The rows, with a persona beside them."""
    folder = tmp_path / "tasks"
    (folder / "personas").mkdir(parents=True)
    (folder / "HumanEval.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8"
    )
    bundled = (ROOT / "tasks/benchmarks/talk2code/personas/non_cs_student.yaml").read_text(
        encoding="utf-8"
    )
    (folder / "personas" / "nurse.yaml").write_text(
        bundled.replace("studies a subject", "nurses people"), encoding="utf-8"
    )
    return folder


def arguments(server: ModelServer, data: Path, out: Path, *more: str) -> tuple[str, ...]:
    asked = (
        "--model",
        f"openai:mock@{server.base_url}",
        "--revision",
        "1",
        "--concurrency",
        "2",
        "--patience-s",
        "2",
    )
    return (
        "build",
        "talk2code-dialogues",
        "--data",
        str(data),
        *asked,
        "--out",
        str(out),
        "--json",
        *more,
    )


def build(home: Path, *arguments: str) -> Done:
    return parley_process(home, *arguments)


def test_a_killed_build_pays_nothing_twice_and_its_dialogues_are_run_and_rated(
    served_home: Path, server: ModelServer, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "made"
    asked = arguments(server, data, out)
    (dry,) = build(served_home, *asked, "--dry-run").json()["calls"]
    assert (dry["estimated"], server.bodies) == (len(ROWS) * PERSONAS + WRITTEN, [])

    server.holds_after = 15
    with started(served_home, *asked) as driver:
        in_flight = kill_in_the_middle(driver, server, signal.SIGKILL)
    done = build(served_home, *asked)
    answers, known, run, ran = counts(done)
    assert (answers + known, known, run + ran) == (ANSWERS, 15, PROGRAMS), done.err
    assert len(server.bodies) == ANSWERS + in_flight
    made = contents(out)
    assert counts(build(served_home, *asked))[:3] == (0, ANSWERS, 0)
    assert contents(out) == made

    check_files(made)
    check_run(served_home, out)
    check_ratings(served_home, out)


def check_files(made: dict[str, bytes]) -> None:
    """Which dialogues are kept, what was rejected and why, and what experts get."""
    assert sorted(made) == [
        "build.json",
        "dialogues.jsonl",
        "nurse.persona.yaml",
        "rejected.json",
        "review.csv",
    ]
    rows = [json.loads(line) for line in made["dialogues.jsonl"].splitlines()]
    assert Counter(row["language"] for row in rows) == {"python": 2, "java": 1, "javascript": 1}
    users = [
        "non_cs_student",
        "nurse",
        "product_manager",
        "cs_student",
        "hobbyist",
        "software_engineer",
    ]
    assert all([dialogue["persona"] for dialogue in row["dialogues"]] == users for row in rows)
    assert all(
        row["reference"] in row["dialogues"][0]["turns"][-1]["assistant"] + "\n" for row in rows
    )
    rejected = json.loads(made["rejected.json"])
    assert Counter((row["persona"], row["reason"], row["n_answers"]) for row in rejected) == {
        ("senior_developer", "full_opening", 3): WITH_REFERENCE,
        ("", "reference_missing", 3): 1,
    }
    sheet = list(csv.DictReader(made["review.csv"].decode().splitlines(keepends=True)))
    assert len({row["episode_id"] for row in sheet}) == WITH_REFERENCE * KEPT_OF_THEM
    assert all(row["dialogue"].count("USER: ") == 4 and "```" in row["dialogue"] for row in sheet)


def check_run(home: Path, out: Path) -> None:
    """The gold model passes every case of every dialogue in the direct track."""
    ran = parley(home, "run", "talk2code.direct", "--data", out, "--model", "control:gold")
    assert ran.code == 0, ran.err
    n = WITH_REFERENCE * KEPT_OF_THEM
    assert query(home, SCORES)[1] == [
        ("success_rate", 1.0, 1.0, n),
        ("test_case_pass_rate", 1.0, 1.0, n),
    ]


def check_ratings(home: Path, out: Path) -> None:
    """Two experts fill in the sheet and agree on three of four.

    By chance 1/2 x 3/4 + 1/2 x 1/4 = 1/2 are alike: kappa 1/2.
    """
    header, *rows = csv.reader(
        (out / "review.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    for rater, said in (("ann", ("yes", "yes", "no", "no")), ("ben", ("yes", "yes", "yes", "no"))):
        path = home.parent / f"{rater}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for row, accepted in zip(rows, said, strict=False):
                filled = dict(zip(header, row, strict=True)) | {
                    "rater": rater,
                    "value:accept": accepted,
                }
                writer.writerow(filled.values())
        assert parley(home, "import", "ratings", path, "--json").json()["kept"] == len(said)
    (found,) = parley(home, "agreement", "--rubric", "talk2code.review", "--json").json()
    assert (found["first"], found["second"], found["n"], found["kappa"]) == (
        "ann",
        "ben",
        4,
        pytest.approx(0.5),
    )

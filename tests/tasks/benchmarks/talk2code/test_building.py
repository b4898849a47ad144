"""What becomes of tasks whose reference cannot be used, and what the model is asked."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandbox import registry
from schemas.dialog import ExpertiseLevel
from schemas.errors import Unscorable
from schemas.problem import SuiteKind
from schemas.run import Limits, ModelIdentity
from schemas.verdict import ProgramVerdict
from tasks.benchmarks.advanced import ConstructionRequest
from tasks.benchmarks.talk2code import BENCHMARK
from tasks.benchmarks.talk2code.construction.dialogue_rules import Brief, Rounds, disclosure_counts
from tasks.language.chat_model import ChatRequest, Completion
from tasks.planning.builds.build_plan import plan_build
from tasks.planning.request import BuildRequest, ModelRequest
from tasks.storage.home import Home
from tests.sandbox.programs import run_program
from tests.tasks.benchmarks.talk2code.author import answer

CONSTRUCTION = BENCHMARK.constructions["dialogues"]
STATEMENT = (
    "Return four times the given whole number; negative numbers give zero, products beyond "
    "hundred give exactly hundred."
)
TEST = "def check(candidate):\n    assert candidate(1) == 4\n    assert candidate(-1) == 0\n"
SOLUTION = "    return max(0, min(100, 4 * n))\n"
PYTHON: dict[str, Any] = {
    "task_id": "HumanEval/7",
    "prompt": f'def quad(n):\n    """ {STATEMENT} """\n',
    "entry_point": "quad",
    "test": TEST,
    "canonical_solution": SOLUTION,
}
JAVA_MAIN = (
    "class Main {\n    public static void main(String[] args) throws Exception {\n        "
    "Integer x0 = Quad.quad(1);\n"
)
JAVA: dict[str, Any] = {
    "task_id": "HumanEval_java/7",
    "language": "java",
    "prompt": (
        f"class Quad {{\n    /* {STATEMENT} */\n    public static Integer quad(Integer n) {{\n"
    ),
    "entry_point": "quad",
    "test": (
        f"{JAVA_MAIN}        if (!(compare(x0, 4))) {{\n            throw new Exception();\n     "
        f"   }}\n\n\n}}\n}}\n"
    ),
    "canonical_solution": None,
}


@dataclass
class Author:
    """The mechanical author as a model; keeps what it was asked."""

    identity: ModelIdentity = field(
        default_factory=lambda: ModelIdentity(provider="recorded", name="a", revision="1")
    )
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        said = answer(
            [
                {"role": message.role.value, "content": message.content}
                for message in request.messages
            ]
        )
        return Completion(content=said, finish_reason="stop")

    async def aclose(self) -> None:
        """Nothing is open."""


class PythonAlone:
    """Runs our own Python on a machine without a JDK and node."""

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: object = None
    ) -> ProgramVerdict:
        if kind != "asserts":
            raise Unscorable(f"{kind} is not there")
        return run_program(registry.load("none"), kind, code, tests, Limits(cpu_s=10, wall_s=60))


def build(
    folder: Path, *rows: dict[str, Any]
) -> tuple[Author, list[dict[str, Any]], list[dict[str, Any]]]:
    """The author, the rows that were made, and those that were rejected."""
    (folder / "HumanEval.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8"
    )
    author = Author()
    request = ConstructionRequest(
        staged=BENCHMARK.data.stage(folder, "dialogues"),
        models={"model": author},
        sampling={name: role.sampling for name, role in CONSTRUCTION.roles.items()},
        options={},
        programs=PythonAlone(),
    )
    made = asyncio.run(CONSTRUCTION.construct(request))
    lines = str(made.files["dialogues.jsonl"]).splitlines()
    return author, [json.loads(line) for line in lines], json.loads(made.files["rejected.json"])


def reasons(rejected: Sequence[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [
        (row["task_id"], row["reason"], row["n_answers"]) for row in rejected if not row["persona"]
    ]


COLBENCH: dict[str, Any] = {
    "problem_description": "I need a Python function that works out what a parcel costs.",
    "ground_truth": "def parcel_price(weight, is_express=False):\n    price = 7.5 if "
    "weight > 31 else 4.2\n"
    "    return price * 2 if is_express else price\n",
    "test_cases": {"test1": "parcel_price(3)", "test2": "parcel_price(40, is_express=True)"},
}


def test_the_writer_of_a_colbench_dialogue_sees_the_ground_truth_and_no_other_does(
    tmp_path: Path,
) -> None:
    author, _, _ = build(tmp_path, PYTHON, COLBENCH)
    dialogues = [
        request.messages[0].content for request in author.asked if request.answer_schema is not None
    ]
    hidden = [
        asked
        for asked in dialogues
        if f"<hidden>\n{COLBENCH['ground_truth'].strip()}\n</hidden>" in asked
    ]
    assert hidden
    assert all("what a parcel costs" in asked for asked in hidden)
    others = [asked for asked in dialogues if asked not in hidden]
    assert others
    assert all("</task>\n\nRules:" in asked and "<hidden>" not in asked for asked in others)


def test_details_of_the_ground_truth_count_as_disclosed() -> None:
    """The statement's words alone are all in the first message."""
    users = (
        "Please, a function that works out what a parcel costs in Python.",
        "The weight decides, and express.",
        "parcel_price.",
    )
    rounds = Rounds(users, ("What decides?", "What is its name?", "Here."))
    known = (ExpertiseLevel.NOVICE, "non_cs_student", "python", ("parcel_price",))
    vague, plain = (
        Brief(*known, COLBENCH["problem_description"], COLBENCH["ground_truth"], is_vague=is_vague)
        for is_vague in (True, False)
    )
    assert disclosure_counts(rounds, plain) == (5, 5, 5)
    assert disclosure_counts(rounds, vague) == (5, 7, 8)


def test_every_row_that_is_no_task_is_listed_with_its_reason(tmp_path: Path) -> None:
    rows = [
        PYTHON,
        COLBENCH | {"test_cases": ["parcel_price(3)"]},
        COLBENCH | {"ground_truth": "async def parcel_price(w): ..."},
    ]
    _, _, rejected = build(tmp_path, *rows)
    assert reasons(rejected) == [
        ("HumanEval.jsonl:2", "listed_tests", 0),
        ("HumanEval.jsonl:3", "async_function", 0),
    ]


def test_without_a_toolchain_its_tasks_are_listed_and_not_repaired(tmp_path: Path) -> None:
    author, made, rejected = build(tmp_path, PYTHON, JAVA)
    assert reasons(rejected) == [("HumanEval_java/7", "toolchain_missing", 1)]
    assert [row["task_id"] for row in made] == ["HumanEval/7"]
    written = [request for request in author.asked if request.answer_schema is None]
    assert len(written) == 1
    assert SOLUTION.strip() in written[0].messages[0].content


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([PYTHON | {"canonical_solution": "    return 4 * n\n"}], "reference_fails"),
        ([JAVA], "reference_missing"),
    ],
)
def test_a_task_without_a_reference_that_passes_costs_no_call(
    tmp_path: Path, rows: list[dict[str, Any]], reason: str
) -> None:
    author, made, rejected = build(tmp_path, *rows)
    assert (author.asked, made) == ([], [])
    assert reasons(rejected) == [(rows[0]["task_id"], reason, 0)]


def test_a_repair_is_told_what_was_wrong_and_has_a_seed_of_its_own(tmp_path: Path) -> None:
    author, _, rejected = build(tmp_path, PYTHON)
    assert [(row["persona"], row["reason"], row["n_answers"]) for row in rejected] == [
        ("senior_developer", "full_opening", 3)
    ]
    asked = [
        request
        for request in author.asked
        if "(senior developer, expert)" in request.messages[0].content
    ]
    assert [(len(request.messages), request.seed) for request in asked] == [(1, 0), (3, 1), (3, 2)]
    assert "The first message tells too much at once" in asked[1].messages[2].content


def test_a_build_without_data_begins_with_the_bundled_tasks(tmp_path: Path) -> None:
    model = ModelRequest(spec="openai:m@http://127.0.0.1:9/v1", revision="1")
    request = BuildRequest(
        what="talk2code-dialogues", roles={"model": model}, out=str(tmp_path / "out")
    )
    plan = plan_build(request, Home(tmp_path))
    assert (plan.spec.dataset_version, plan.estimate) == (
        "tasks",
        {"model": 6 * len(plan.staged.problems)},
    )
    assert {problem.level for problem in plan.staged.problems} == {"backend"}

"""How the benchmark is made: comments are chosen, pairs verified by running them, conflicts found,
and all of it exported.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandbox import registry
from schemas.errors import ConfigError
from schemas.problem import SuiteKind
from schemas.run import Limits, ModelIdentity
from schemas.verdict import ProgramVerdict
from tasks.benchmarks.advanced import Constructed, ConstructionRequest
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.construction.base_task import CONSTRUCTION, comments_of, k_centres
from tasks.benchmarks.codeif.construction.building import REJECTED, STRATEGY_LIST, TASKS
from tasks.language.chat_model import ChatRequest, Completion
from tasks.planning.builds.build_plan import plan_build
from tasks.planning.request import BuildRequest, ModelRequest
from tasks.storage.home import Home
from tests.sandbox.programs import run_program
from tests.tasks.benchmarks.codeif.dialogues import write_rows

BUILT = BENCHMARK.constructions["tasks"]
TASK: dict[str, Any] = {
    "task_id": 7,
    "prompt": "Write double(n), which doubles a number.",
    "test": ["assert double(2) == 4"],
    "code": "def double(n):\n    return n + n",
    "requirements": {},
    "multi-turn": [],
}
COMMENTS = [
    "Raise a ValueError here.",
    "Raise ValueError, please.",
    "Why?",
    "Two levels of loops are enough.",
]
STRICT = (
    "def double(n):\n    if isinstance(n, str):\n        raise TypeError('numbers')\n    return "
    "n + n"
)
TOTAL = "def double(n):\n    return 0 if n is None else n + n"


def pair(requirement: str, test: str, solution: str) -> str:
    return json.dumps({"requirement": requirement, "unit_test": [test], "solution": solution})


REFUSES = "try:\n    double('a')\n    raise SystemExit(1)\nexcept TypeError: pass"
ANSWERS: dict[str, list[str]] = {
    "Input-Output Conditions": [f"```json\n{pair('Refuse text.', REFUSES, STRICT)}\n```"],
    "Exception Handling": [
        pair("None is 0.", "assert double(None) == 0", STRICT),
        pair("None is 0.", "assert double(None) == 0", TOTAL),
    ],
    "Edge Case Handling": [pair("Zero stays.", "assert double(0) == 0", STRICT)],
    "Annotation Coverage": [
        "I would rather not.",
        "{}",
        '{"requirement": "x", "unit_test": [], "solution": "y"}',
    ],
    "Code Complexity": [pair("One line.", "assert True", "double = lambda n: n")] * 3,
    "Code Standard": [
        pair(
            "Text is doubled, too.",
            "assert double('a') == 'aa'",
            "def double(n):\n    return n * 2  # text, too",
        )
    ],
    "Functionality Extension": [
        pair(
            "Three times, if asked.",
            "assert double(2, 3) == 6",
            "def double(n, k=2):\n    return n * k",
        )
    ],
}
BOTH = (
    "def double(n):\n    if isinstance(n, str):\n        raise TypeError('numbers')\n    return "
    "0 if n is None else n + n"
)


@dataclass
class Author:
    """Answers by what it is asked."""

    identity: ModelIdentity = field(
        default_factory=lambda: ModelIdentity(provider="recorded", name="a", revision="1")
    )
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        said = request.messages[0].content
        if "A reviewer wrote this" in said:
            name = (
                "exception kinds" if "ValueError" in said else "Nesting" if "loops" in said else ""
            )
            content = (
                json.dumps({"strategy": name, "demand": f"{name}.", "verifiable": bool(name)})
                if name
                else "no idea"
            )
        elif "must also meet all" in said:
            content = f"```python\n{BOTH}\n```"
        else:
            strategy = next(name for name in ANSWERS if f'of the kind "{name}"' in said)
            content = ANSWERS[strategy][request.sample]
        return Completion(content=content, finish_reason="stop")

    async def aclose(self) -> None:
        """Nothing is open."""


class Bare:
    """Runs our own Python."""

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: object = None
    ) -> ProgramVerdict:
        return run_program(registry.load("none"), kind, code, tests, Limits(cpu_s=10, wall_s=60))


class Corners:
    """Vectors by the text's beginning: equal comments are near each other."""

    async def find(self, texts: Sequence[str]) -> dict[str, Any]:
        places = {"Rais": (1.0, 0.0, 0.0), "Why?": (0.0, 1.0, 0.0), "Two ": (0.0, 0.0, 1.0)}
        return {text: np.asarray(places[text[:4]], dtype=np.float32) for text in texts}


def build(folder: Path, task: dict[str, Any] = TASK, **changes: Any) -> tuple[Constructed, Author]:
    write_rows(folder / "L_1_part_1.jsonl", task)
    write_rows(
        folder / "review_comments.jsonl", *({"comment": text} for text in COMMENTS), {"other": 1}
    )
    author = Author()
    request: dict[str, Any] = {
        "staged": BENCHMARK.data.stage(folder, CONSTRUCTION),
        "models": {"model": author},
        "sampling": {name: role.sampling for name, role in BUILT.roles.items()},
        "options": {"selected": "5"},
        "programs": Bare(),
        "embedder": Corners(),
    }
    return asyncio.run(BUILT.construct(ConstructionRequest(**request | changes))), author


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Constructed, Author]:
    return build(tmp_path_factory.mktemp("made"))


def test_k_centres_takes_the_farthest_each_time() -> None:
    angles = [0.0, 0.1, 3.0, 1.5, 0.2]
    vectors = [np.asarray((np.cos(a), np.sin(a)), dtype=np.float32) for a in angles]
    assert k_centres(vectors, 3) == (0, 2, 3)
    assert sorted(k_centres(vectors, 9)) == [0, 1, 2, 3, 4]
    assert k_centres([], 2) == ()


@pytest.mark.slow
def test_a_build_is_a_native_file_that_stages_again(
    made: tuple[Constructed, Author], tmp_path: Path
) -> None:
    (tmp_path / TASKS).write_text(str(made[0].files[TASKS]), encoding="utf-8")
    staged = BENCHMARK.data.stage(tmp_path, "current")
    assert not staged.quarantined
    assert staged.problems[0].problem_id == "function/7"
    assert staged.dialogs[0].instruction_ids == (
        *(
            "base",
            "Input-Output Conditions",
            "Exception Handling",
            "Edge Case Handling",
            "Functionality Extension",
        ),
    )


def test_a_pair_is_mended_by_the_model_or_rejected_with_the_reason(
    made: tuple[Constructed, Author],
) -> None:
    rejected = json.loads(made[0].files[REJECTED])
    assert [(row["strategy"], row["reason"], row["n_answers"]) for row in rejected] == [
        ("Annotation Coverage", "unreadable", 3),
        ("Code Complexity", "solution_breaks_the_task", 3),
        ("Code Standard", "conflict", 1),
    ]
    asked = [
        r for r in made[1].asked if 'of the kind "Exception Handling"' in r.messages[0].content
    ]
    assert [len(request.messages) for request in asked] == [1, 3]
    assert "the solution fails the unit test" in asked[1].messages[2].content


DEEP = "[" * 100_000


class Stubborn(Author):
    """Gives the same answer whatever it is asked."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        return Completion(content=self.answer, finish_reason="stop")


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps({"requirement": " ", "unit_test": ["assert True"], "solution": TASK["code"]}),
        json.dumps(
            {
                "requirement": "One more.",
                "unit_test": ["assert True", " "],
                "solution": TASK["code"],
            }
        ),
        json.dumps(
            {
                "requirement": "Half a pair \ud800.",
                "unit_test": ["assert True"],
                "solution": TASK["code"],
            }
        ),
        json.dumps({"requirement": "A number.", "unit_test": [5], "solution": TASK["code"]}),
        DEEP,
        '{"strategy": ' + DEEP + "}",
    ],
    ids=["blank requirement", "one blank test", "surrogate", "no text", "deep", "deep object"],
)
def test_an_answer_that_staging_would_refuse_is_rejected_and_ends_nothing(
    answer: str, tmp_path: Path
) -> None:
    made, _ = build(tmp_path, models={"model": Stubborn(answer)})
    assert {(row["reason"], row["n_answers"]) for row in json.loads(made.files[REJECTED])} == {
        ("unreadable", 3)
    }
    assert made.files[TASKS] == ""
    (unread,) = json.loads(made.files[STRATEGY_LIST])
    assert (unread["strategy"], sorted(unread["comments"])) == (None, sorted(COMMENTS))


def test_k_centres_takes_so_many_steps_as_vectors_each_time() -> None:
    n_products = 0

    class Counted:
        def __init__(self, angle: float) -> None:
            self.x, self.y = np.cos(angle), np.sin(angle)

        def __matmul__(self, other: "Counted") -> float:
            nonlocal n_products
            n_products += 1
            return self.x * other.x + self.y * other.y

    vectors: Any = [Counted(n / 40) for n in range(120)]
    assert len(set(k_centres(vectors, 60))) == 60
    assert n_products == 120 * 59


def test_a_test_that_the_base_solution_passes_is_flagged(made: tuple[Constructed, Author]) -> None:
    columns = made[0].review.columns
    rows = [dict(zip(columns, row, strict=True)) for row in made[0].review.rows]
    assert {row["strategy"]: row["vacuous"] for row in rows} == {
        "Input-Output Conditions": False,
        "Exception Handling": False,
        "Edge Case Handling": True,
        "Code Standard": True,
        "Functionality Extension": False,
    }
    assert columns[:5] == ("episode_id", "rubric", "rater", "value:instruction", "value:test")
    assert len({row["episode_id"] for row in rows}) == len(rows)


def test_a_base_task_whose_reference_fails_its_own_tests_is_asked_for_no_pair(
    tmp_path: Path,
) -> None:
    made, author = build(tmp_path, task=TASK | {"test": ["assert double(2) == 5"]})
    rejected = json.loads(made.files[REJECTED])
    assert {(row["reason"], row["n_answers"]) for row in rejected} == {
        ("reference_fails_its_tests", 0)
    }
    assert len(rejected) == 7
    assert made.review.rows == []
    assert not [one for one in author.asked if "of the kind" in one.messages[0].content]


@pytest.mark.slow
def test_strategies_are_drawn_from_comments_that_differ(tmp_path: Path) -> None:
    made, author = build(tmp_path, options={"selected": "2"})
    assert (
        sum("A reviewer wrote this" in request.messages[0].content for request in author.asked) == 2
    )
    assert json.loads(made.files[STRATEGY_LIST])[-1] == {"strategy": None, "comments": ["Why?"]}
    whole, _ = build(tmp_path, options={"selected": "5"})
    strategies = json.loads(whole.files[STRATEGY_LIST])
    assert [(row["strategy"], row.get("n"), row.get("n_verifiable")) for row in strategies] == [
        ("Exception Kinds", 2, 2),
        ("Nesting", 1, 1),
        (None, None, None),
    ]


@pytest.mark.slow
def test_comments_are_part_of_the_data_and_bad_ones_are_quarantined(tmp_path: Path) -> None:
    build(tmp_path)
    staged = BENCHMARK.data.stage(tmp_path, CONSTRUCTION)
    assert comments_of(staged) == tuple(COMMENTS)
    assert [row.reason for row in staged.quarantined] == ["missing_field"]
    assert staged.n_input == 2
    before = {dialog.digest for dialog in staged.dialogs}
    write_rows(tmp_path / "review_comments.jsonl", {"msg": "Another."})
    assert before.isdisjoint(
        dialog.digest for dialog in BENCHMARK.data.stage(tmp_path, CONSTRUCTION).dialogs
    )


def test_without_comments_it_says_what_to_give(tmp_path: Path) -> None:
    write_rows(tmp_path / "L_1_part_1.jsonl", TASK)
    asked = BuildRequest(
        what="codeif-tasks",
        roles={"model": ModelRequest(spec="control:gold")},
        embedder=ModelRequest(spec="openai:e", key_env="NO_KEY"),
        data=str(tmp_path),
        dataset_version=CONSTRUCTION,
    )
    with pytest.raises(ConfigError, match="review_comments"):
        plan_build(asked, Home.at(str(tmp_path / "home")))


def test_the_bundled_sample_has_tasks_and_comments() -> None:
    staged = BENCHMARK.data.stage(Path(str(BENCHMARK.data.bundled[CONSTRUCTION])), CONSTRUCTION)
    assert (len(staged.problems), len(comments_of(staged)), staged.quarantined) == (2, 12, ())
    assert BUILT.estimate(staged=staged, options={"selected": "5"}) == {"model": 5 + 2 * 7}

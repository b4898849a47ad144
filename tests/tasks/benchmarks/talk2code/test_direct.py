"""The direct track: a golden dialogue without its code is the prompt; cases are counted one by
one.
"""

import pytest

from schemas.dialog import Role
from schemas.episode import StopReason, UnscoredReason
from schemas.verdict import FailureReason, Outcome, TestVerdict
from tasks.benchmarks.contract import Played, ScoreRequest
from tasks.benchmarks.talk2code import BENCHMARK
from tasks.benchmarks.talk2code.languages import LANGUAGES, code_of, delivered_program
from tests.tasks.benchmarks.talk2code.played import STREAK, dialogue, episode, play, sample


def test_the_subject_sees_the_golden_dialogue_and_neither_its_code_nor_a_test() -> None:
    ending, model, _ = play(
        "direct", STREAK, "```python\ndef longest_streak(cups, goal): return 0\n```"
    )
    assert ending.stop_reason is StopReason.FINISHED
    (asked,) = model.asked
    assert [message.role for message in asked.messages] == [
        Role.SYSTEM,
        *[Role.USER, Role.ASSISTANT] * 3,
        Role.USER,
    ]
    said = "\n".join(message.content for message in asked.messages)
    assert "longest_streak" in said
    assert "```" not in said.replace(asked.messages[0].content, "")
    assert not any(case in said for case in dialogue(STREAK)[0].instructions[0].suite.tests)


def test_golden_dialogues_are_said_to_their_end_without_a_model() -> None:
    ending, model, _ = play("golden", STREAK)
    assert model.asked == []
    assert ending.steps[-1].content.endswith(
        f"```python\n{dialogue(STREAK)[0].reference_code.rstrip()}\n```"
    )


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("Sure.\n```python\ndef f(): ...\n```\nUse:\n```python\nprint(f())\n```", "def f(): ...\n"),
        ("```bash\npip f\n```\n```py\ndef f(): 1\n```", "def f(): 1\n"),
        ("```\ndef f(): 2", "def f(): 2"),
        ("```python\nprint(1)\n```\n```python\ndef f(): 3\n```", "def f(): 3\n"),
        ("Shall f take `f` or f()?", None),
        ("```java\nint f() {}\n```", None),
        ("```python\ndef fg(): 4\n```", None),
        ("Do you mean this?\n```python\nf([1]) == 2\n```", None),
    ],
)
def test_an_answer_delivers_its_first_block_that_defines_the_function(
    answer: str, program: str | None
) -> None:
    assert delivered_program(answer, LANGUAGES["python"], "f") == program


@pytest.mark.parametrize(
    ("language", "code", "defines"),
    [
        ("python", "async def f(x): ...", True),
        ("python", "f = lambda x: x", True),
        ("python", "assert f == f(1)", False),
        ("java", "class A {\n  static int f(int x) throws Exception {\n return x; }\n}", True),
        ("java", "class A { int g() { return f(1); } }", False),
        ("java", "if (f(1) == 2) { }", False),
        ("javascript", "function f(x) { return x }", True),
        ("javascript", "const f = x => x", True),
        ("javascript", "module.exports = { f: (x) => x }", True),
        ("javascript", "class A { f(x) { return x } }", True),
        ("javascript", "console.log(f(1) === 2)", False),
        ("javascript", "a.f = 1", False),
        ("javascript", "if (f(1) === 2) { g() }", False),
    ],
)
def test_a_program_defines_the_function_or_only_calls_it(
    language: str, code: str, defines: bool
) -> None:
    assert LANGUAGES[language].defines(code, "f") is defines


def test_an_answer_without_such_a_block_is_judged_by_its_first_block_or_as_it_is() -> None:
    python = LANGUAGES["python"]
    assert code_of("```python\nx = 1\n```", python, "f") == "x = 1\n"
    assert code_of("def f(): pass", python, "f") == "def f(): pass"


@pytest.mark.parametrize("margin", ["", "    "], ids=["flush", "indented"])
def test_a_public_java_class_runs_beside_the_main_class_of_each_case(margin: str) -> None:
    code = (
        f"{margin}{{}}final class Names {{{{\n{margin}  public class Inner {{{{}}}}\n{margin}}}}}\n"
    )
    ending, *_ = play(
        "direct",
        "java/initials/expert/software_engineer",
        f"{margin}```java\n{code.format('public ')}{margin}```",
    )
    problem, dialog = dialogue("java/initials/expert/software_engineer")
    runs = BENCHMARK.programs.test_runs(
        problem, dialog, episode("direct", dialog.dialog_id, ending), {}
    )
    assert [run.instruction_id for run in runs] == [f"case {n}" for n in range(1, 6)]
    assert {run.code for run in runs} == {code.format("")}


def verdict(
    name: str, outcome: Outcome, n_cases: int | None, n_passed: int | None, case: str = "base"
) -> TestVerdict:
    turn = max(turn.turn for turn in dialogue(name)[1].turns)
    same = {
        "run_id": "r",
        "benchmark": "talk2code",
        "model": "m",
        "episode_id": "e",
        "sample": 0,
        "sandbox": "zygote",
    }
    reason = FailureReason.TOOLCHAIN_MISSING if outcome is Outcome.UNSCORED else None
    return TestVerdict(
        **same,  # pyright: ignore[reportArgumentType]  (a mapping of texts, which no field is told apart in)
        problem_id=dialogue(name)[0].problem_id,
        turn=turn,
        instruction_id=case,
        outcome=outcome,
        reason=reason,
        n_cases=n_cases,
        n_passed=n_passed,
    )


def scores(name: str, *verdicts: TestVerdict) -> dict[str, float | UnscoredReason | None]:
    problem, dialog = dialogue(name)
    ending, *_ = play("direct", name, "no code")
    played = Played(dialog, episode("direct", name, ending), verdicts)
    request = ScoreRequest(
        problem=problem, sample=0, run_id="r", setting="direct", options={}, played=(played,)
    )
    return {
        score.metric: score.unscored_reason or score.value
        for score in BENCHMARK.scores.score(request)
    }


def test_four_of_six_cases_are_a_pass_rate_of_two_thirds_and_no_success() -> None:
    assert scores(STREAK, verdict(STREAK, Outcome.FAILED, 6, 4)) == {
        "test_case_pass_rate": 4 / 6,
        "success_rate": 0.0,
    }


def test_programs_of_one_case_each_count_together() -> None:
    name = "javascript/page_ranges/expert/software_engineer"
    outcomes = [
        Outcome.PASSED,
        Outcome.FAILED,
        Outcome.PASSED,
        Outcome.PASSED,
        Outcome.TIMEOUT,
        Outcome.PASSED,
    ]
    rows = [
        verdict(name, o, 1, int(o is Outcome.PASSED), f"case {n}")
        for n, o in enumerate(outcomes, 1)
    ]
    assert scores(name, *rows) == {"test_case_pass_rate": 4 / 6, "success_rate": 0.0}


def test_a_missing_compiler_leaves_both_unscored() -> None:
    name = "java/initials/expert/software_engineer"
    rows = [verdict(name, Outcome.UNSCORED, None, None, f"case {n}") for n in range(1, 6)]
    assert set(scores(name, *rows).values()) == {UnscoredReason.TOOLCHAIN_MISSING}


def test_the_sample_has_each_language_level_and_archetype() -> None:
    labels = [dict(dialog.labels) for dialog in sample().dialogs]
    assert len(sample().problems) == 6
    assert {(label["language"], label["level"]) for label in labels} == {
        (language, level)
        for language in LANGUAGES
        for level in ("novice", "intermediate", "expert")
    }
    assert len({label["archetype"] for label in labels}) == 6

"""The hand-written dialogue walked through every setting: who says what, word by word, with
programs run in the real sandbox.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from schemas.dialog import Role
from schemas.episode import FEEDBACK_SETTINGS, Feedback, FeedbackSetting, StopReason, VerbalFeedback
from schemas.verdict import Outcome
from tasks.benchmarks.convcode import BENCHMARK
from tasks.benchmarks.convcode.settings import LIVE
from tests.tasks.benchmarks.convcode.spoken import (
    BOTH_BOUNDS,
    CODES,
    DOES_NOT_COMPILE,
    NEITHER_BOUND,
    PROMPT,
    REFERENCE,
    REMARKS,
    Spoken,
    fenced,
    play,
)

pytestmark = pytest.mark.usefixtures("bubblewrap")

NO_COLON = """Traceback (most recent call last):
  File "tmp.py", line 1
    def clamp(numbers, low, high)
                                 ^
SyntaxError: expected ':'"""
MODULE = """ALL
  File "program.py", line 1
    def clamp(numbers, low, high)
                                 ^
SyntaxError: expected ':'"""
CASE_1 = """TEST_CASE_1
Traceback (most recent call last):
  File "<tests>", line 9, in test_case_1
    self.assertEqual(clamp(self.numbers, 0, 20), [5, 0, 12])
AssertionError: Lists differ: [5, -2, 12] != [5, 0, 12]

First differing element 1:
-2
0

- [5, -2, 12]
?     ^^

+ [5, 0, 12]
?     ^"""
CASE_4 = """TEST_CASE_4
Traceback (most recent call last):
  File "<tests>", line 18, in test_case_4
    self.assertEqual(clamp(self.numbers, -9, 11), [5, -2, 11])
AssertionError: Lists differ: [5, -2, 12] != [5, -2, 11]

First differing element 2:
12
11

- [5, -2, 12]
?          ^

+ [5, -2, 11]
?          ^"""
CASE_5 = """TEST_CASE_5
Traceback (most recent call last):
  File "<tests>", line 21, in test_case_5
    self.assertEqual(clamp([7, 7], 9, 9), [9, 9])
AssertionError: Lists differ: [7, 7] != [9, 9]

First differing element 0:
7
9

- [7, 7]
+ [9, 9]"""
OK = "No syntax errors"
ALL_PASS = "Every test that was run passes."
FIRST_OF_THREE: tuple[str | None, ...] = (MODULE, CASE_1, ALL_PASS)
OF_ALL: tuple[str | None, ...] = (MODULE, f"{CASE_1}\n\n{CASE_4}\n\n{CASE_5}", CASE_4)
NONE: tuple[str | None, ...] = (None, None, None)
EXECUTION = {"none": NONE, "f_e": FIRST_OF_THREE, "f_e*": OF_ALL}
"""Execution feedback of rounds 2, 3 and 4."""
N_ROUNDS: Mapping[str, int] = {
    "none": 1,
    "f_c": 2,
    "f_c,f_v": 2,
    "f_c,f_v*": 4,
    "f_c,f_e": 3,
    "f_c,f_e,f_v": 3,
    "f_c,f_e,f_v*": 4,
    "f_c,f_e*": 4,
    "f_c,f_e*,f_v": 4,
    "f_c,f_e*,f_v*": 4,
}
"""Without an expert the dialogue ends with the first code in which nothing wrong is shown, although
its hidden tests fail.
"""


def user_of(feedback: FeedbackSetting) -> str:
    return "novice" if feedback.verbal is VerbalFeedback.NOVICE else "expert"


def expected(feedback: FeedbackSetting) -> list[Feedback]:
    """The feedback of each round after the first, written out."""
    compilation = (NO_COLON, OK, OK)
    execution = EXECUTION[feedback.execution.value]
    verbal: tuple[str | None, ...] = (
        NONE if feedback.verbal is VerbalFeedback.NONE else REMARKS[user_of(feedback)]
    )
    rounds = zip(compilation, execution, verbal, strict=True)
    return [Feedback(compilation=c, execution=e, verbal=v) for c, e, v in rounds][
        : N_ROUNDS[feedback.name] - 1
    ]


def feedback_of(spoken: Spoken) -> list[Feedback | None]:
    return [
        step.feedback for step in spoken.ending.steps if step.role is Role.USER and step.turn > 1
    ]


@pytest.mark.parametrize("feedback", FEEDBACK_SETTINGS, ids=lambda feedback: feedback.name)
def test_the_dialogue_in_each_of_the_nine_settings(
    feedback: FeedbackSetting, tmp_path: Path
) -> None:
    spoken = play(tmp_path, f"live[{feedback.name}]", user_of(feedback))
    assert feedback_of(spoken) == expected(feedback)
    assert spoken.rounds == N_ROUNDS[feedback.name]
    assert spoken.ending.stop_reason is StopReason.FINISHED
    for turn, told in enumerate(expected(feedback), 2):
        assert spoken.message(turn) == message(CODES[turn - 2], told)
    n_remarks = spoken.rounds - 1 if feedback.verbal is not VerbalFeedback.NONE else 0
    assert len(spoken.simulator.asked) == n_remarks


def message(code: str, feedback: Feedback) -> str:
    """The message of a round, written out."""
    sections = [f"Compilation feedback:\n{feedback.compilation}"]
    sections += [f"Execution feedback:\n{feedback.execution}"] if feedback.execution else []
    sections += [f"User feedback:\n{feedback.verbal}"] if feedback.verbal else []
    said = "\n\n".join(sections)
    return f"""{PROMPT}

Below is an earlier program for this problem, and what was said about it.

Previous code:
```python
{code.rstrip()}
```

{said}

First think step by step about what is wrong with the program and what has to change. Then write the whole corrected program, \
self-contained, in one fenced code block tagged python. Let it be the only code block of your answer."""


def test_without_feedback_there_is_one_round(tmp_path: Path) -> None:
    spoken = play(tmp_path, "live[none]")
    assert (spoken.rounds, feedback_of(spoken), spoken.simulator.asked) == (1, [], [])
    assert spoken.ending.stop_reason is StopReason.FINISHED
    assert spoken.ending.steps[-1].program is not None


@pytest.mark.parametrize("setting", LIVE)
def test_the_first_round_is_the_same_in_every_setting(setting: str, tmp_path: Path) -> None:
    spoken = play(tmp_path, setting, **({} if setting == "live[none]" else {"turns": "1"}))
    (opening,) = (step for step in spoken.ending.steps if (step.turn, step.role) == (1, Role.USER))
    ask = (
        "Solve the following problem with a self-contained Python program. Answer with the "
        "program alone,"
    )
    assert opening.content == f"{ask} in one fenced code block tagged python.\n\n{PROMPT}"
    assert spoken.rounds == (1 if setting == "live[none]" else 2)


def test_code_that_passes_the_whole_suite_is_not_spoken_of_in_partial_coverage_either(
    tmp_path: Path,
) -> None:
    spoken = play(tmp_path, "live[f_c,f_e,f_v*]")
    last = spoken.ending.steps[-1]
    assert (last.turn, last.content) == (4, fenced(BOTH_BOUNDS))
    assert last.program is not None
    assert last.program.outcome is Outcome.PASSED
    assert [request.turn for request in spoken.simulator.asked] == [2, 3, 4]


def test_upstream_s_coverage_shows_the_tests_among_the_first_three_methods_and_no_error_of_the_module(
    tmp_path: Path,
) -> None:
    spoken = play(tmp_path, "live[f_c,f_e,f_v*]", coverage="upstream_first_three_methods")
    shown = [feedback.execution for feedback in feedback_of(spoken) if feedback]
    assert shown == [ALL_PASS, CASE_1, ALL_PASS]


def test_each_request_shows_the_round_s_message_and_nothing_older(tmp_path: Path) -> None:
    spoken = play(tmp_path, "live[f_c,f_e*,f_v*]")
    assert [len(request.messages) for request in spoken.subject.asked] == [1, 1, 1, 1]
    assert spoken.subject.texts == tuple(spoken.message(turn) for turn in (1, 2, 3, 4))
    assert DOES_NOT_COMPILE.rstrip() in spoken.message(2)
    assert DOES_NOT_COMPILE.rstrip() not in spoken.message(3)
    assert NEITHER_BOUND.rstrip() not in spoken.message(4)


def test_the_reference_code_itself_is_the_feedback_of_table_7_s_last_row(tmp_path: Path) -> None:
    spoken = play(tmp_path, "live[f_c,ground_truth]")
    feedback = next(
        step.feedback for step in spoken.ending.steps if (step.turn, step.role) == (2, Role.USER)
    )
    assert feedback is not None
    assert (
        feedback.verbal
        == f"This program is known to be right:\n```python\n{REFERENCE.strip()}\n```"
    )
    assert REFERENCE.strip() in spoken.message(2)
    assert REFERENCE.strip() not in spoken.message(1)
    assert spoken.simulator.asked == []
    assert BENCHMARK.settings["live[f_c,ground_truth]"].needs_simulator is False

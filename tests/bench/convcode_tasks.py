"""Synthetic tasks in BigCodeBench's form, a reference model's logs of them, and a program that
solves none.
"""

import json
from pathlib import Path
from typing import Any

from schemas.episode import ExecutionFeedback, FeedbackSetting, VerbalFeedback
from tasks.benchmarks.convcode.log_files.log_folder import LogName, eval_file

SETTING = FeedbackSetting(execution=ExecutionFeedback.FULL, verbal=VerbalFeedback.EXPERT)
STDLIB = "from collections import Counter\nfrom itertools import accumulate\nimport statistics\n"
PANDAS = "import numpy as np\nimport pandas as pd\n"
ASK = (
    "Task {task}: of a list of whole numbers, take those that {n} divides, and give their "
    "running totals in the list's order, the"
    " most frequent of them and its count, the median of the list, and the number of those "
    "left out. An empty list gives None."
)
UNSOLVED = '''def task_func(values):
    """Totals, most frequent, median, left out: answer {answer}."""
    if not values:
        return None
    taken = [value for value in values if value % 2 == 0]
    totals = list(accumulate(taken))
    common = Counter(taken).most_common(1)
    return totals, common[0] if common else None, statistics.median(values), len(values) - len(taken)
'''
UNSOLVED_PANDAS = '''def task_func(values):
    """Totals, most frequent, median, left out: answer {answer}."""
    if not values:
        return None
    frame = pd.DataFrame({{"value": values}})
    taken = frame[frame["value"] % 2 == 0]
    counts = taken.groupby("value").size().sort_values(ascending=False)
    common = (int(counts.index[0]), int(counts.iloc[0])) if len(counts) else None
    return np.cumsum(taken["value"]).tolist(), common, float(frame["value"].median()), len(frame) - len(taken)
'''
_TEST = """import unittest


class TestCases(unittest.TestCase):
    def setUp(self):
        self.values = list(range(1, 4 * {n}))

    def test_case_1(self):
        self.assertIsNone(task_func([]))

    def test_case_2(self):
        self.assertEqual(task_func(self.values)[0], [{n}, 3 * {n}, 6 * {n}])

    def test_case_3(self):
        self.assertEqual(task_func([{n}, {n}, 1])[1], ({n}, 2))

    def test_case_4(self):
        self.assertEqual(task_func(self.values)[2], 2 * {n})

    def test_case_5(self):
        self.assertEqual(task_func(self.values)[3], 4 * {n} - 4)
"""


def tests_of(task: int) -> str:
    """The task's module of five tests; UNSOLVED passes the first and the fourth.

    No task is more work than another.
    """
    return _TEST.format(n=_divisor(task))


def _divisor(task: int) -> int:
    return 2 * (task % 50) + 1


def unsolved(answer: object, *, pandas: bool = False) -> str:
    """A program that solves no task; no two of different `answer` are alike."""
    return (
        PANDAS + "\n\n" + UNSOLVED_PANDAS.format(answer=answer)
        if pandas
        else STDLIB + "\n\n" + UNSOLVED.format(answer=answer)
    )


def answer(mark: str) -> str:
    """What a model says that solves no task."""
    return (
        f"Here is the function.\n```python\n{unsolved(mark)}```\nIt goes through the list once, "
        "and takes what two divides.\n"
    )


def write_tasks(folder: Path, n_tasks: int, n_turns: int) -> Path:
    """Tasks, and logs of a reference that solved none of them in `n_turns` turns, the one without
    feedback among them.
    """
    logs = folder / "logs"
    logs.mkdir(parents=True)
    (folder / "bigcodebench.jsonl").write_text(
        "".join(json.dumps(_task(n)) + "\n" for n in range(n_tasks))
    )
    for turn in range(n_turns):
        log = logs / LogName("reference", SETTING, "simulator", 1).at(turn).file
        log.write_text(
            "".join(json.dumps(_logged(n, turn, n_turns - 1)) + "\n" for n in range(n_tasks))
        )
        failed = {_name(n): [{"task_id": _name(n), "status": "fail"}] for n in range(n_tasks)}
        eval_file(log).write_text(json.dumps({"date": "2026-01-01 00:00", "eval": failed}))
    return folder


def _name(task: int) -> str:
    return f"BigCodeBench/{task}"


def _task(task: int) -> dict[str, Any]:
    start = f"{STDLIB}def task_func(values):\n"
    text = ASK.format(task=task, n=_divisor(task))
    return {
        "task_id": _name(task),
        "complete_prompt": f'{start}    """{text}"""\n',
        "instruct_prompt": f"{text}\nWrite self-contained code that begins with:\n```\n{start}```",
        "canonical_solution": "    return None\n",
        "code_prompt": start,
        "test": tests_of(task),
        "entry_point": "task_func",
        "doc_struct": "{}",
        "libs": "['collections', 'itertools', 'statistics']",
    }


def _logged(task: int, turn: int, last_turn: int) -> dict[str, Any]:
    row = {"task_id": _name(task), "solution": unsolved(f"{task}, turn {turn}"), "turns": last_turn}
    if turn == 0:
        return row
    failed = (
        'TEST_CASE_2\nTraceback (most recent call last):\n  File "tests", line '
        f"12\nAssertionError: turn {turn}"
    )
    return row | {
        "compilation_feedback": "No syntax errors",
        "execution_feedback": failed,
        "user_feedback": (
            f"You take what two divides; the task asks for another number (turn {turn})."
        ),
        "log": "",
        "iteration": turn,
    }

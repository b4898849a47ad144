"""A hand-written dialogue: one problem, a subject and two users with recorded answers, and what
each of them was asked.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from sandbox import registry
from schemas.content_id import content_id
from schemas.dialog import Role
from schemas.problem import SuiteKind
from schemas.run import ModelIdentity, Sampling
from schemas.verdict import ProgramVerdict
from tasks.benchmarks.convcode import BENCHMARK
from tasks.benchmarks.convcode.stage import live_dialog
from tasks.benchmarks.setting import CastRequest
from tasks.dialogue.engine import Ending, Transcript, play_dialogue
from tasks.language.chat_model import ChatModel, ChatRequest, Completion
from tasks.language.recorded_model import RecordedModel, load_recording
from tests.problems import simple_problem
from tests.sandbox.programs import run_program

PROMPT = """Write clamp(numbers, low, high): a list in which each number below low is replaced by low and each above high by high.
Write self-contained code that begins with:
```
def clamp(numbers, low, high):
```"""
REFERENCE = (
    "def clamp(numbers, low, high):\n    return [sorted((low, number, high))[1] for number in "
    "numbers]\n"
)
TESTS = """import unittest


class TestCases(unittest.TestCase):
    def setUp(self):
        self.numbers = [5, -2, 12]

    def test_case_1(self):
        self.assertEqual(clamp(self.numbers, 0, 20), [5, 0, 12])

    def test_case_2(self):
        self.assertEqual(clamp([], 0, 1), [])

    def test_case_3(self):
        self.assertEqual(clamp([1], 0, 2), [1])

    def test_case_4(self):
        self.assertEqual(clamp(self.numbers, -9, 11), [5, -2, 11])

    def test_case_5(self):
        self.assertEqual(clamp([7, 7], 9, 9), [9, 9])
"""
HIDDEN = ("test_case_4", "test_case_5", "[5, -2, 11]", "[9, 9]")
"""What only the tests beyond the first three hold."""

DOES_NOT_COMPILE = "def clamp(numbers, low, high)\n    return numbers\n"
NEITHER_BOUND = "def clamp(numbers, low, high):\n    return list(numbers)\n"
LOWER_BOUND_ONLY = (
    "def clamp(numbers, low, high):\n    return [max(low, number) for number in numbers]\n"
)
BOTH_BOUNDS = (
    "def clamp(numbers, low, high):\n    return [min(high, max(low, number)) for number in "
    "numbers]\n"
)
CODES = (DOES_NOT_COMPILE, NEITHER_BOUND, LOWER_BOUND_ONLY, BOTH_BOUNDS)
"""The subject's code, round by round: its last two pass the first three tests, its last passes
all.
"""

REMARKS: Mapping[str, tuple[str, ...]] = {
    "novice": (
        "It does not start: SyntaxError in line 1, the arrow points at the end.",
        "One answer is wrong, I see a -2 where 0 is expected.",
        "Now the answer has a 12 where 11 is expected.",
    ),
    "expert": (
        "The function's head lacks its colon.",
        "Nothing is replaced yet: both bounds are missing.",
        "The upper bound is still missing.",
    ),
}
"""What the users say in rounds 2, 3 and 4."""
THOUGHTS = "a thought that nobody may hear"


def fenced(code: str) -> str:
    return f"Let me think.\n```python\n{code}```\nThat should do."


def said(remark: str) -> str:
    """A simulator's whole answer."""
    return f"Reasoning: {THOUGHTS}.\nFeedback: {remark}"


PROBLEM = simple_problem(
    "Sample/clamp", PROMPT, TESTS, "unittest", benchmark="convcode", reference_code=REFERENCE
)
DIALOG = live_dialog(PROBLEM)


@dataclass
class Overheard:
    """A model whose requests are kept."""

    model: ChatModel
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])

    @property
    def identity(self) -> ModelIdentity:
        return self.model.identity

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        return await self.model.complete(request)

    async def aclose(self) -> None:
        await self.model.aclose()

    @property
    def texts(self) -> tuple[str, ...]:
        """Every message of every request."""
        return tuple(message.content for request in self.asked for message in request.messages)


def recorded(folder: Path, name: str, answers: Mapping[int, str]) -> Overheard:
    """A recorded model with an answer for each of these rounds."""
    path = folder / f"{name}.jsonl"
    lines = (
        {"problem_id": PROBLEM.problem_id, "turn": turn, "content": text}
        for turn, text in answers.items()
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return Overheard(
        RecordedModel(ModelIdentity(provider="recorded", name=name), load_recording(path))
    )


class Programs:
    """Runs programs in the zygote, equal ones once in the whole test process."""

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: object = None
    ) -> ProgramVerdict:
        return await asyncio.to_thread(_run, kind, code, tests)


@cache
def _run(kind: SuiteKind, code: str, tests: tuple[str, ...]) -> ProgramVerdict:
    found = run_program(registry.load("zygote"), kind, code, tests, BENCHMARK.programs.limits)
    return found.model_copy(update={"verdict_id": content_id([code, tests])})


@dataclass(frozen=True)
class Spoken:
    """A dialogue that took place."""

    ending: Ending
    subject: Overheard
    simulator: Overheard

    @property
    def rounds(self) -> int:
        return max(step.turn for step in self.ending.steps)

    def message(self, turn: int) -> str:
        """What the subject was told in a round."""
        return next(
            step.content
            for step in self.ending.steps
            if (step.turn, step.role) == (turn, Role.USER)
        )


def play(folder: Path, setting: str, user: str = "expert", **options: str) -> Spoken:
    """The hand-written dialogue in a live setting; `user` says whose recorded remarks the simulator
    has.
    """
    subject = recorded(
        folder, "subject", {turn: fenced(code) for turn, code in enumerate(CODES, 1)}
    )
    simulator = recorded(
        folder, "simulator", {turn: said(remark) for turn, remark in enumerate(REMARKS[user], 2)}
    )
    episode_options, _ = BENCHMARK.split_options(setting, options)
    request = CastRequest(
        setting,
        dict(episode_options),
        PROBLEM,
        DIALOG,
        subject,
        simulator,
        Sampling(),
        programs=Programs(),
    )
    opening = Transcript(PROBLEM, DIALOG, sample=0, seed=0, turn=1)
    return Spoken(
        asyncio.run(play_dialogue(opening, BENCHMARK.play.cast(request), lambda _: None)),
        subject,
        simulator,
    )

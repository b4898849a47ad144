"""A problem, reports and models of a few lines for the participants that give and take feedback on
code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Step
from schemas.errors import SandboxUnavailable
from schemas.problem import SuiteKind
from schemas.run import ModelIdentity
from schemas.verdict import Outcome, ProgramVerdict
from tasks.dialogue.engine import Transcript
from tasks.language.chat_model import ChatRequest, Completion
from tests.problems import simple_problem

PROBLEM = simple_problem("p/1", "task", "module", "unittest")
SUITE = PROBLEM.instructions[0].suite
DIALOG = Dialog(
    benchmark=PROBLEM.benchmark,
    dataset_version=PROBLEM.dataset_version,
    dialog_id="d/1",
    problem_id=PROBLEM.problem_id,
    turns=(Turn(turn=1, role=Role.USER, content="task"), Turn(turn=1, role=Role.ASSISTANT)),
    row_digest=PROBLEM.row_digest,
)


def transcript(*steps: Step) -> Transcript:
    """What comes next: a user's message after an answer, an answer after a message."""
    turn = 1 if not steps else steps[-1].turn + (steps[-1].role is Role.ASSISTANT)
    return Transcript(PROBLEM, DIALOG, sample=2, seed=9, turn=turn, steps=steps)


def user(turn: int, text: str = "message") -> Step:
    return Step(turn=turn, role=Role.USER, content=text)


def answer(turn: int, text: str, report: ProgramVerdict | None) -> Step:
    return Step(turn=turn, role=Role.ASSISTANT, content=text, program=report)


def report_of(code: str) -> ProgramVerdict:
    """Code that says `broken` does not compile, code that says `right` passes; everything else
    fails.
    """
    return ProgramVerdict(
        outcome=Outcome.PASSED if "right" in code else Outcome.FAILED,
        compile_error=f"error in {code}\n" if "broken" in code else None,
        verdict_id=content_id(code),
    )


@dataclass
class Reports:
    """Reports without running anything: what a participant does with them is what is tested."""

    asked: list[tuple[SuiteKind, str, tuple[str, ...]]] = field(
        default_factory=list[tuple[SuiteKind, str, tuple[str, ...]]]
    )
    is_down: bool = False

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: object = None
    ) -> ProgramVerdict:
        self.asked.append((kind, code, tests))
        if self.is_down:
            raise SandboxUnavailable("no sandbox")
        return report_of(code)


@dataclass
class Lines:
    """A model that gives these completions one after another, and keeps what it was asked."""

    said: Sequence[Completion | Exception]
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(provider="control", name="lines")

    async def complete(self, request: ChatRequest) -> Completion:
        said = self.said[len(self.asked)]
        self.asked.append(request)
        if isinstance(said, Exception):
            raise said
        return said

    async def aclose(self) -> None:
        return None


def paid(text: str, finish_reason: str = "stop") -> Completion:
    """A completion that cost 10 tokens in, 3 out and half a second."""
    return Completion(text, finish_reason, 10, 3, 0.5, "served", n_calls=1)

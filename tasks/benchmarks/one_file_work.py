"""Agent work in a benchmark of one file: a waiting user, and the tests of the result."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.dialog import Role
from schemas.episode import Episode, Step, StopReason
from schemas.problem import BASE_INSTRUCTION, Problem
from schemas.run import Limits
from tasks.benchmarks.advanced import CastRequest
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.patches import final_patch
from tasks.benchmarks.play import own_texts
from tasks.dialogue.agents.repository.labels import ENDED
from tasks.dialogue.seats import Cast, Stop
from tasks.dialogue.transcript import Transcript

LIMITS = Limits(cpu_s=120.0, wall_s=240.0, memory_mb=2048, processes=128, file_mb=64, tmp_mb=256)
MOST_ROUNDS, MOST_STEPS = 101, 2000
"""Limits that the agents' own limit of 100 answers cannot reach."""
NOTHING_TO_ADD = "I have nothing to add. Do as you think best, and finish."


@dataclass(frozen=True)
class WaitingUser:
    """User who sends one text per round, then repeats that there is nothing to add."""

    texts: tuple[str, ...]
    """Texts of the user, in order. The user stops when the agent ends its work."""
    is_agent: bool
    """True if an agent answers. With a chat model, the dialogue ends after the last text."""
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the text of this round, or stop."""
        n = transcript.turn
        if n > 1 and ENDED in dict(transcript.messages[-1].labels):
            return Stop(StopReason.FINISHED)
        if n > len(self.texts) and not self.is_agent:
            return Stop(StopReason.FINISHED)
        return Step(
            turn=n,
            role=self.role,
            content=self.texts[n - 1] if n <= len(self.texts) else NOTHING_TO_ADD,
        )


def cast(request: CastRequest) -> Cast:
    """Return a cast of the subject and a user who waits until the subject's work is done."""
    user = WaitingUser(
        tuple(own_texts(request.dialog, request.options)), request.make_seat is not None
    )
    return Cast(
        subject=request.subject_seat(),
        counterpart=user,
        max_turns=MOST_ROUNDS,
        max_steps=MOST_STEPS,
    )


def patch_runs(problem: Problem, episode: Episode) -> Sequence[TestRun]:
    """Return the run of the task's tests on the final patch."""
    turn, patch = final_patch(episode)
    tests = problem.instructions[0].suite.tests
    return (
        TestRun(
            turn=turn,
            instruction_id="",
            code=None if episode.stop_reason is StopReason.INFRA else patch,
            tests=tests,
            kind="patch",
            repository=problem.repo,
            decides={BASE_INSTRUCTION: tests},
            reference=problem.reference_code or None,
        ),
    )

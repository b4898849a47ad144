"""A subject whose answers are programs. Each program is run before it is said; if it does not compile, another is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import ModelUnavailable, SandboxUnavailable
from schemas.problem import TestSuite
from tasks.dialogue.programs import ProgramRunner
from tasks.dialogue.seats import Seat, Stop
from tasks.dialogue.transcript import Transcript, steps_taken
from tasks.language.spent import spent


@dataclass(frozen=True)
class CodingSubject:
    """Runs each answer's code and keeps the report beside the answer (`Step.program`).

    From the second round on, an answer that does not compile is followed by up to `calls_per_round - 1` more requests. They show
    its code and compiler message and nothing else. The last answer is the round's. Steps that lead to the first answer are the
    round's steps, too; steps that lead to a further one count as its cost alone.
    """

    chat: Seat
    """Answers the round's user message, without regard to earlier ones."""
    programs: ProgramRunner
    suite: TestSuite
    code_of: Callable[[str], str]
    """The code of an answer."""
    recompile: Callable[[str, str], str]
    """(code, compiler message) -> the message that asks for code which compiles."""
    calls_per_round: int = 3
    role: Role = Role.ASSISTANT

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The answer of round `transcript.turn`, with its program's report, or a step towards it. It costs what all answers cost.

        Raises:
            ModelUnavailable: no usable answer after all retries; `n_calls` counts all requests of the round.
            AnswerMissing: a recording without this answer.
        """
        said: list[Step] = []
        asked, n_said = transcript, 0
        while True:
            answer = await self._answer(asked, said)
            if isinstance(answer, Stop) and said and answer.reason is StopReason.SUBJECT_ERROR:
                return _summed(
                    said, answer.n_calls
                )  # it refused to mend its answer, which then stands
            if isinstance(answer, Stop):
                return replace(answer, n_calls=answer.n_calls + spent(said).n_calls)
            if answer.kind is not StepKind.MESSAGE and not said:
                return answer
            said.append(answer)
            if answer.kind is not StepKind.MESSAGE:
                asked = replace(asked, steps=(*asked.steps, answer))
                continue
            n_said += 1
            error = answer.program.compile_error if answer.program else None
            if error is None or transcript.turn == 1 or n_said >= self.calls_per_round:
                return _summed(said)
            asked = _asking(transcript, self.recompile(self.code_of(answer.content), error), n_said)

    async def _answer(self, asked: Transcript, said: Sequence[Step]) -> Step | Stop:
        """One answer with its program's report."""
        try:
            answer = await self.chat.speak(asked)
        except ModelUnavailable as fault:
            n_calls = fault.n_calls + spent(said).n_calls
            raise ModelUnavailable(
                str(fault), permanent=fault.permanent, n_calls=n_calls
            ) from fault
        if isinstance(answer, Stop) or answer.kind is not StepKind.MESSAGE:
            return answer
        try:
            report = await self.programs.run(
                self.suite.kind, self.code_of(answer.content), self.suite.tests
            )
        except SandboxUnavailable as fault:
            return Stop(StopReason.INFRA, str(fault), answer.n_calls)
        return answer.model_copy(update={"program": report})


def _asking(transcript: Transcript, message: str, n_said: int) -> Transcript:
    """The transcript with another user message in its last place, and another seed: equal requests may give other answers."""
    before = transcript.steps[: len(transcript.steps) - len(steps_taken(transcript.steps))]
    asked = before[-1].model_copy(update={"content": message})
    return replace(transcript, steps=(*before[:-1], asked), seed=transcript.seed + n_said)


def _summed(said: Sequence[Step], extra_calls: int = 0) -> Step:
    """The last answer with what all calls of the round cost, from the first answer on."""
    cost = spent([step for step in said if step.kind is not StepKind.OBSERVATION])
    last = next(step for step in reversed(said) if step.kind is StepKind.MESSAGE)
    return last.model_copy(
        update={
            "input_tokens": cost.input_tokens,
            "output_tokens": cost.output_tokens,
            "latency_s": cost.latency_s,
            "reasoning_tokens": cost.reasoning_tokens,
            "n_calls": cost.n_calls + extra_calls,
        }
    )

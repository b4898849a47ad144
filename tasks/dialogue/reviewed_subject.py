"""Subjects whose answers are run immediately, and the user who reviews test results.

A coding subject runs one program. If it does not compile, the model is asked for another one. A
reviewed subject runs several programs that test each answer, and the user requests the first
instruction that the answer violates. The transcript is the user's memory: labels of each message
name its instruction and kind.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import ModelUnavailable, SandboxUnavailable, Unscorable
from schemas.problem import TestSuite
from tasks.dialogue.agents.repository.labels import EMPTY, MALFORMED
from tasks.dialogue.engine import Participant, Stop, Transcript, steps_since_message
from tasks.dialogue.tools import ProgramRunner, WantedProgram
from tasks.language.chat_model import spent, with_earlier_calls


@dataclass(frozen=True)
class ReviewedSubject:
    """Subject that runs the programs of each answer and stores the reports in `Step.programs`.

    Reports have the order of the programs.
    """

    chat: Participant
    """Participant that gives the answers."""
    programs: ProgramRunner
    programs_of: Callable[[Transcript, str], Sequence[WantedProgram]]
    """Returns the programs to run from (transcript, answer)."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the answer of round `transcript.turn` with its reports, or a step before it.

        Raises the errors of the participant that answers.
        """
        answer = await self.chat.speak(transcript)
        if isinstance(answer, Stop) or answer.kind is not StepKind.MESSAGE:
            return answer
        import asyncio  # Imported here: commands that only list benchmarks start faster.

        wanted = self.programs_of(transcript, answer.content)
        try:
            reports = await asyncio.gather(
                *(self.programs.run(w.kind, w.code, w.tests, w.place) for w in wanted)
            )
        except SandboxUnavailable as fault:
            return Stop(StopReason.INFRA, str(fault), answer.n_calls)
        except Unscorable as missing:
            return Stop(StopReason.NOT_ASKED, str(missing), answer.n_calls)
        return answer.model_copy(update={"programs": tuple(reports)})


INSTRUCTION, ROUND = "instruction", "round"
"""Labels on the reviewer's messages: id of the instruction, and kind of the round."""
FEEDBACK = "feedback"


@dataclass(frozen=True, slots=True)
class ReviewRound:
    """Message of the reviewer: its turn, instruction and kind."""

    turn: int
    instruction_id: str
    is_feedback: bool


@dataclass(frozen=True, slots=True)
class Review:
    """Test result of one instruction on one answer."""

    is_met: bool
    output: str
    """Reason of a failure. Empty if the instruction is met."""


def review_rounds(steps: Sequence[Step]) -> tuple[ReviewRound, ...]:
    """Return the reviewer's messages among an episode's steps, in order."""
    messages = ((step.turn, dict(step.labels)) for step in steps if step.role is Role.USER)
    return tuple(
        ReviewRound(turn, labels[INSTRUCTION], labels[ROUND] == FEEDBACK)
        for turn, labels in messages
    )


@dataclass(frozen=True)
class InstructionReviewer:
    """Reviewer of dynamic conversations, who gives the first instruction in round 1.

    An answer that fails its round's instruction gets one round of feedback. If the next answer
    fails the instruction as well, the instruction is discarded and never given again. Then, or
    after an answer that passes, the next instruction is the first remaining one that the latest
    answer fails. It may have been given before. The dialogue ends when none remains.
    """

    instructions: tuple[str, ...]
    """Ids of the instructions, in the order in which they are given."""
    read: Callable[[Step], Mapping[str, Review]]
    """Returns the review of each instruction from an answer, by the reports in `Step.programs`."""
    ask: Callable[[str], str]
    """Returns the message that gives an instruction."""
    complain: Callable[[str, str], str]
    """Returns the message of a feedback round from (instruction, output of its tests)."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the next instruction, feedback on the last one, or the end as finished.

        Raises:
            ValueError: An answer was not run with all instructions' tests.
        """
        if transcript.turn == 1:
            return self._step(
                1, self.instructions[0], self.ask(self.instructions[0]), "instruction"
            )
        rounds = review_rounds(transcript.messages)
        reviews = {
            step.turn: self.read(step)
            for step in transcript.messages
            if step.role is Role.ASSISTANT
        }
        last = rounds[-1]
        review = reviews[last.turn][last.instruction_id]
        if not last.is_feedback and not review.is_met:
            return self._step(
                transcript.turn,
                last.instruction_id,
                self.complain(last.instruction_id, review.output),
                FEEDBACK,
            )
        discarded = {
            earlier.instruction_id
            for earlier in rounds
            if earlier.is_feedback and not reviews[earlier.turn][earlier.instruction_id].is_met
        }
        left = (
            name
            for name in self.instructions
            if name not in discarded and not reviews[last.turn][name].is_met
        )
        chosen = next(left, None)
        if chosen is None:
            return Stop(StopReason.FINISHED)
        return self._step(transcript.turn, chosen, self.ask(chosen), "instruction")

    def _step(self, turn: int, name: str, content: str, kind: str) -> Step:
        return Step(
            turn=turn, role=Role.USER, content=content, labels=((INSTRUCTION, name), (ROUND, kind))
        )


@dataclass(frozen=True)
class CodingSubject:
    """Subject that runs the code of each answer and stores the report in `Step.program`.

    From the second round on, up to `calls_per_round - 1` more requests follow an answer that does
    not compile. They show only its code and the compiler's message. The last answer counts for the
    round.

    Steps before the first answer are steps of the round. Steps before a later answer only add to
    its cost.
    """

    chat: Participant
    """Participant that answers the user message of the round and ignores earlier rounds."""
    programs: ProgramRunner
    suite: TestSuite
    code_of: Callable[[str], str]
    """Returns the code of an answer."""
    recompile: Callable[[str, str], str]
    """Returns the message that requests corrected code, from (code, compiler message)."""
    calls_per_round: int = 3

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the answer of round `transcript.turn` with its report, or a step before it.

        The answer's cost includes all answers of the round.

        Raises:
            ModelUnavailable: No usable answer after all retries. `n_calls` counts all requests of
                the round.
            AnswerMissing: A recording does not have this answer.
        """
        steps: list[Step] = []
        current, n_answers = transcript, 0
        while True:
            answer = await self._answer(current, steps)
            if isinstance(answer, Stop) and steps and answer.reason is StopReason.SUBJECT_ERROR:
                # The model refused to correct its answer, so the answer counts as it is.
                return _with_total_cost(steps, answer.n_calls)
            if isinstance(answer, Stop):
                return replace(answer, n_calls=answer.n_calls + spent(steps).n_calls)
            if answer.kind is not StepKind.MESSAGE and not steps:
                return answer
            steps.append(answer)
            if answer.kind is not StepKind.MESSAGE:
                current = replace(current, steps=(*current.steps, answer))
                continue
            n_answers += 1
            error = answer.program.compile_error if answer.program else None
            if error is None or transcript.turn == 1 or n_answers >= self.calls_per_round:
                return _with_total_cost(steps)
            current = _with_request(
                transcript, self.recompile(self.code_of(answer.content), error), n_answers
            )

    async def _answer(self, current: Transcript, steps: Sequence[Step]) -> Step | Stop:
        """Return one answer with its program's report."""
        try:
            answer = await self.chat.speak(current)
        except ModelUnavailable as fault:
            raise with_earlier_calls(fault, steps) from fault
        if isinstance(answer, Stop) or answer.kind is not StepKind.MESSAGE:
            return answer
        try:
            report = await self.programs.run(
                self.suite.kind, self.code_of(answer.content), self.suite.tests
            )
        except SandboxUnavailable as fault:
            return Stop(StopReason.INFRA, str(fault), answer.n_calls)
        return answer.model_copy(update={"program": report})


def _with_request(transcript: Transcript, message: str, n_answers: int) -> Transcript:
    """Return the transcript with another last user message and another seed.

    With the same seed, equal requests could get equal answers.
    """
    before = transcript.steps[: len(transcript.steps) - len(steps_since_message(transcript.steps))]
    request = before[-1].model_copy(update={"content": message})
    return replace(transcript, steps=(*before[:-1], request), seed=transcript.seed + n_answers)


def _with_total_cost(steps: Sequence[Step], extra_calls: int = 0) -> Step:
    """Return the last answer with the total cost of the round's calls, from the first answer on."""
    cost = spent([step for step in steps if step.kind is not StepKind.OBSERVATION])
    last = next(step for step in reversed(steps) if step.kind is StepKind.MESSAGE)
    total = replace(cost, n_calls=cost.n_calls + extra_calls)
    return last.model_copy(update=asdict(total))


PART, CANDIDATE, REVIEW = "part", "candidate", "review"
"""Label of an artifact, and its values: an unsent reply, and the check of a reply."""
VIOLATIONS = "violations"
"""Label of a check and of the next reply: kinds of violations in the draft, comma-separated."""
REVIEWED, UNREADABLE = "reviewed", "unreadable"
"""Label of a check that was unreadable, and of the reply sent without its result."""


def draft_note(steps: Sequence[Step], position: int) -> str:
    """Return a note for readers on the fate of a draft. Empty if the step is not a draft.

    Args:
        steps: Steps of the episode.
        position: 0-based index of the step in `steps`.
    """
    labels = dict(steps[position].labels)
    if (malformed := labels.get(MALFORMED)) is not None:
        why = "an empty answer" if malformed == EMPTY else "an unreadable tool call"
        return f"rejected draft: {why}"
    if labels.get(PART) == REVIEW:
        return "check of the draft"
    if labels.get(PART) != CANDIDATE:
        return ""
    for step in steps[position + 1 :]:
        later_labels = dict(step.labels)
        if step.kind is StepKind.MESSAGE or later_labels.get(PART) == REVIEW:
            if later_labels.get(VIOLATIONS):
                return f"rejected draft: {later_labels[VIOLATIONS].replace(',', ', ')}"
            return (
                "draft, sent without a readable check"
                if later_labels.get(REVIEWED) == UNREADABLE
                else "draft, sent unchanged"
            )
    return "draft"

"""The engine with participants of a few lines: who speaks when, and how each ending is told."""

import asyncio
from collections.abc import Callable

import pytest

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason, ToolCall
from schemas.errors import AnswerMissing, ModelUnavailable, ReferenceMissing
from tasks.dialogue.engine import Cast, Ending, Stop, Transcript, play_dialogue
from tests.tasks.dialogue.feedback_participants import DIALOG, PROBLEM


class Speaker:
    """Says what a function of the transcript says; remembers what it saw."""

    def __init__(self, role: Role, say: Callable[[Transcript], str | Stop]) -> None:
        self.role, self.say = role, say
        self.saw: list[Transcript] = []

    async def speak(self, transcript: Transcript) -> Step | Stop:
        self.saw.append(transcript)
        said = self.say(transcript)
        return (
            said
            if isinstance(said, Stop)
            else Step(turn=transcript.turn, role=self.role, content=said)
        )


def asks(n_rounds: int) -> Speaker:
    return Speaker(
        Role.USER, lambda t: f"ask {t.turn}" if t.turn <= n_rounds else Stop(StopReason.FINISHED)
    )


def answers() -> Speaker:
    return Speaker(Role.ASSISTANT, lambda t: f"answer {t.turn}")


def play(cast: Cast, steps: tuple[Step, ...] = ()) -> tuple[Ending, list[Step]]:
    kept: list[Step] = []
    opening = Transcript(PROBLEM, DIALOG, sample=0, seed=0, turn=1, steps=steps)
    return asyncio.run(play_dialogue(opening, cast, kept.append)), kept


def test_counterpart_asks_and_subject_answers_in_turn() -> None:
    ending, kept = play(Cast(answers(), asks(2), max_turns=9))
    assert ending.stop_reason is StopReason.FINISHED
    assert [(s.turn, s.role.value, s.content) for s in ending.steps] == [
        (1, "user", "ask 1"),
        (1, "assistant", "answer 1"),
        (2, "user", "ask 2"),
        (2, "assistant", "answer 2"),
    ]
    assert tuple(kept) == ending.steps


def test_each_message_is_kept_before_the_next_is_asked_for() -> None:
    order: list[str] = []
    subject = Speaker(Role.ASSISTANT, lambda t: order.append("answer") or "a")
    counterpart = Speaker(
        Role.USER,
        lambda t: order.append("ask") or ("q" if t.turn < 3 else Stop(StopReason.FINISHED)),
    )
    opening = Transcript(PROBLEM, DIALOG, sample=0, seed=0, turn=1)
    asyncio.run(
        play_dialogue(opening, Cast(subject, counterpart, 9), lambda step: order.append("keep"))
    )
    assert order == ["ask", "keep", "answer", "keep"] * 2 + ["ask"]


@pytest.mark.parametrize("done", range(6))
def test_an_episode_goes_on_from_any_message_without_asking_again(done: int) -> None:
    whole, _ = play(Cast(answers(), asks(3), max_turns=9))
    subject, counterpart = answers(), asks(3)
    ending, kept = play(Cast(subject, counterpart, max_turns=9), whole.steps[:done])
    assert ending == whole
    assert tuple(kept) == whole.steps[done:]
    assert len(subject.saw) == 3 - done // 2


def test_the_turn_limit_ends_it() -> None:
    ending, _ = play(Cast(answers(), asks(99), max_turns=2))
    assert (ending.stop_reason, len(ending.steps)) == (StopReason.TURN_LIMIT, 4)


def fails(error: Exception) -> Speaker:
    def say(transcript: Transcript) -> str:
        if transcript.turn == 2:
            raise error
        return "a"

    return Speaker(Role.ASSISTANT, say)


def test_a_fault_of_the_service_is_infra_and_keeps_what_was_said() -> None:
    ending, _ = play(Cast(fails(ModelUnavailable("no answer from X")), asks(3), max_turns=9))
    assert (ending.stop_reason, ending.error, len(ending.steps)) == (
        StopReason.INFRA,
        "no answer from X",
        3,
    )


def test_a_missing_answer_is_the_subjects_own_ending() -> None:
    ending, _ = play(Cast(fails(AnswerMissing("no line for turn 2")), asks(3), max_turns=9))
    assert (ending.stop_reason, ending.error) == (StopReason.SUBJECT_ERROR, "no line for turn 2")


def test_a_missing_reference_is_a_gap_in_the_data_not_an_empty_answer() -> None:
    ending, _ = play(Cast(fails(ReferenceMissing("no reference")), asks(3), max_turns=9))
    assert (ending.stop_reason, ending.error) == (StopReason.NOT_ASKED, "no reference")


def test_a_fault_of_our_own_is_raised_not_scored() -> None:
    with pytest.raises(ZeroDivisionError):
        play(Cast(fails(ZeroDivisionError()), asks(3), max_turns=9))


def test_a_journal_that_cannot_be_written_stops_the_episode() -> None:
    def full(_step: Step) -> None:
        raise OSError(28, "no space")

    opening = Transcript(PROBLEM, DIALOG, sample=0, seed=0, turn=1)
    subject = answers()
    with pytest.raises(OSError, match="no space"):
        asyncio.run(play_dialogue(opening, Cast(subject, asks(3), 9), full))
    assert subject.saw == []


def steps_then_message(role: Role, n_steps: int) -> Speaker:
    """Takes so many steps in each turn, alternately a call and its observation, before it says a
    message.
    """

    class Taking(Speaker):
        async def speak(self, transcript: Transcript) -> Step | Stop:
            taken = len(transcript.turn_steps)
            if taken == n_steps or (role is Role.USER and transcript.turn > 2):
                return await super().speak(transcript)
            self.saw.append(transcript)
            if pending := transcript.pending_calls:
                said = {
                    "role": Role.TOOL,
                    "kind": StepKind.OBSERVATION,
                    "call_id": pending[0].call_id,
                }
            else:
                call = ToolCall(call_id=f"c{taken}", name="look", arguments="{}")
                said = {"role": role, "kind": StepKind.TOOL_CALL, "calls": (call,)}
            return Step.model_validate(
                {"turn": transcript.turn, "content": f"{role} {taken}", **said}
            )

    return Taking(role, asks(2).say if role is Role.USER else lambda t: f"answer {t.turn}")


def test_a_participant_is_asked_until_it_says_a_message_and_sees_no_step_of_the_other() -> None:
    subject, counterpart = steps_then_message(Role.ASSISTANT, 4), steps_then_message(Role.USER, 2)
    ending, kept = play(Cast(subject, counterpart, max_turns=9))
    assert ending.stop_reason is StopReason.FINISHED
    assert tuple(kept) == ending.steps
    assert [(s.turn, s.kind.value) for s in ending.steps[:8]] == [
        (1, "tool_call"), (1, "observation"), (1, "message"),
        (1, "tool_call"), (1, "observation"), (1, "tool_call"), (1, "observation"), (1, "message"),
    ]  # fmt: skip
    for participant, other in ((subject, Role.USER), (counterpart, Role.ASSISTANT)):
        strange = [
            s
            for t in participant.saw
            for s in t.steps
            if s.kind is not StepKind.MESSAGE and s.content.startswith(other)
        ]
        assert strange == []
    assert counterpart.saw[-1].texts(Role.ASSISTANT) == ("answer 1", "answer 2")


@pytest.mark.parametrize("done", range(17))
def test_an_episode_goes_on_from_any_step_without_taking_it_again(done: int) -> None:
    def cast() -> Cast:
        return Cast(
            steps_then_message(Role.ASSISTANT, 4), steps_then_message(Role.USER, 2), max_turns=9
        )

    whole, _ = play(cast())
    assert len(whole.steps) == 16
    ending, kept = play(cast(), whole.steps[:done])
    assert ending == whole
    assert tuple(kept) == whole.steps[done:]


def test_a_subject_without_a_message_ends_as_its_own_failure_and_a_counterpart_as_infra() -> None:
    ending, _ = play(
        Cast(steps_then_message(Role.ASSISTANT, 99), asks(2), max_turns=9, max_steps=6)
    )
    assert (ending.stop_reason, len(ending.steps)) == (StopReason.SUBJECT_ERROR, 7)
    assert ending.error == "the assistant took 6 steps in round 1 of p/1 without a message"
    ending, _ = play(Cast(answers(), steps_then_message(Role.USER, 99), max_turns=9, max_steps=6))
    assert (ending.stop_reason, len(ending.steps)) == (StopReason.INFRA, 6)

"""What a chat model is shown of the past, and what becomes of its answer."""

import asyncio

import pytest

from schemas.dialog import Dialog, HistoryPolicy, Role, Turn
from schemas.episode import Step, StopReason, ToolCall
from schemas.run import ModelIdentity, Sampling
from tasks.dialogue.chat_subject import RENDERERS, ChatSubject, ScriptedUser, messages_of
from tasks.dialogue.engine import Cast, Stop, Transcript, play_dialogue
from tasks.language.chat_model import ChatRequest, Completion
from tests.tasks.dialogue.feedback_participants import DIALOG, PROBLEM


def dialog_with(*extra: Turn, golden: tuple[str | None, ...] = (None, None, None)) -> Dialog:
    turns = [Turn(turn=n, role=Role.ASSISTANT, reference=text) for n, text in enumerate(golden, 1)]
    return DIALOG.model_copy(update={"turns": (*extra, *turns)})


def said(*texts: str) -> tuple[Step, ...]:
    roles = (Role.USER, Role.ASSISTANT)
    return tuple(
        Step(turn=n // 2 + 1, role=roles[n % 2], content=text) for n, text in enumerate(texts)
    )


def transcript(*texts: str, dialog: Dialog | None = None) -> Transcript:
    return Transcript(
        PROBLEM,
        dialog or dialog_with(),
        sample=2,
        seed=9,
        turn=(len(texts) + 1) // 2,
        steps=said(*texts),
    )


def shown(history: HistoryPolicy, *texts: str, dialog: Dialog | None = None) -> list[str]:
    return [
        f"{m.role.value}: {m.content}"
        for m in messages_of(transcript(*texts, dialog=dialog), history)
    ]


def test_on_policy_is_the_dialogue_itself() -> None:
    assert shown(HistoryPolicy.ON_POLICY, "q1", "a1", "q2") == [
        "user: q1",
        "assistant: a1",
        "user: q2",
    ]


def test_reference_puts_golden_answers_in_place_of_its_own() -> None:
    dialog = dialog_with(golden=("g1", "g2", None))
    assert shown(HistoryPolicy.REFERENCE, "q1", "a1", "q2", "a2", "q3", dialog=dialog) == [
        "user: q1", "assistant: g1", "user: q2", "assistant: g2", "user: q3",
    ]  # fmt: skip


def test_reference_without_a_golden_answer_is_an_error_that_names_the_round() -> None:
    with pytest.raises(ValueError, match="d/1 has no reference answer of round 1"):
        shown(HistoryPolicy.REFERENCE, "q1", "a1", "q2")


def test_upstream_v0_shows_the_first_answer_only() -> None:
    assert shown(HistoryPolicy.UPSTREAM_V0, "q1") == ["user: q1"]
    assert shown(HistoryPolicy.UPSTREAM_V0, "q1", "a1", "q2", "a2", "q3") == [
        "user: q1\nq2",
        "assistant: a1",
        "user: q3",
    ]


def test_last_code_and_feedback_is_the_round_s_message_alone() -> None:
    assert shown(HistoryPolicy.LAST_CODE_AND_FEEDBACK, "q1") == ["user: q1"]
    assert shown(
        HistoryPolicy.LAST_CODE_AND_FEEDBACK, "q1", "a1", "q2 with a1", "a2", "q3 with a2"
    ) == ["user: q3 with a2"]


def test_each_history_has_a_rendering() -> None:
    assert set(RENDERERS) == set(HistoryPolicy)


@pytest.mark.parametrize("history", [h for h in HistoryPolicy if h is not HistoryPolicy.REFERENCE])
def test_the_dialog_s_system_turn_comes_first(history: HistoryPolicy) -> None:
    dialog = dialog_with(Turn(turn=1, role=Role.SYSTEM, content="be brief"))
    assert shown(history, "q1", "a1", "q2", dialog=dialog)[0] == "system: be brief"


def test_a_round_in_which_the_user_said_nothing_cannot_be_answered() -> None:
    with pytest.raises(ValueError, match="no user message"):
        messages_of(
            Transcript(PROBLEM, dialog_with(), 0, 0, turn=2, steps=said("q1", "a1")),
            HistoryPolicy.ON_POLICY,
        )


class Once:
    """Gives one completion and keeps the request."""

    identity = ModelIdentity(provider="control", name="once")

    def __init__(self, completion: Completion) -> None:
        self.completion = completion
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        return self.completion

    async def aclose(self) -> None:
        return None


def test_a_request_says_whose_it_is_and_a_step_keeps_what_came_back() -> None:
    model = Once(Completion("a2", "length", 10, 3, 0.5, "served", n_calls=2))
    sampling = Sampling(temperature=0.7)
    step = asyncio.run(ChatSubject(model, sampling).speak(transcript("q1", "a1", "q2")))
    (asked,) = model.asked
    assert (asked.sampling, asked.seed, asked.problem_id, asked.turn, asked.sample) == (
        sampling,
        9,
        "p/1",
        2,
        2,
    )
    assert step == Step(
        turn=2,
        role=Role.ASSISTANT,
        content="a2",
        input_tokens=10,
        output_tokens=3,
        latency_s=0.5,
        finish_reason="length",
        served_model="served",
        n_calls=2,
    )


def test_a_conversation_longer_than_the_context_ends_the_dialogue_as_the_subject_s_failure() -> (
    None
):
    stop = asyncio.run(
        ChatSubject(Once(Completion("", "context_length")), Sampling()).speak(transcript("q1"))
    )
    assert isinstance(stop, Stop)
    assert stop.reason is StopReason.SUBJECT_ERROR
    assert "control:once refused round 1 of p/1" in (stop.error or "")


def test_a_model_that_only_calls_tools_is_asked_three_times() -> None:
    calls = (ToolCall(call_id="c", name="run", arguments="{}"),)
    model = Once(Completion("", "tool_calls", calls=calls))
    cast = Cast(ChatSubject(model, Sampling()), ScriptedUser(("q1",)), max_turns=9)
    opening = Transcript(PROBLEM, DIALOG, sample=0, seed=0, turn=1)
    ending = asyncio.run(play_dialogue(opening, cast, lambda _: None))
    assert (len(model.asked), ending.stop_reason) == (3, StopReason.SUBJECT_ERROR)
    assert "called tools in 3 answers of round 1 of p/1" in (ending.error or "")


def test_the_scripted_user_stops_after_its_last_text() -> None:
    user = ScriptedUser(("q1", "q2"))
    steps = [
        asyncio.run(user.speak(Transcript(PROBLEM, dialog_with(), 0, 0, turn)))
        for turn in (1, 2, 3)
    ]
    assert steps[:2] == [
        Step(turn=1, role=Role.USER, content="q1"),
        Step(turn=2, role=Role.USER, content="q2"),
    ]
    assert steps[2] == Stop(StopReason.FINISHED)

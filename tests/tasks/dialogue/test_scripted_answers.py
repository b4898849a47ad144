"""Dialogs in which a script gives some of the answers: who is asked, what is shown, what is due."""

import asyncio
from collections.abc import Sequence

import pytest

from schemas.dialog import Context, Dialog, HistoryPolicy, Role, Turn
from schemas.episode import TOO_LONG, Episode, Step, StopReason, UnscoredReason, reason_of
from tasks.dialogue.chat_subject import ScriptedUser, messages_of, partly_scripted
from tasks.dialogue.engine import Cast, Ending, Transcript, play_dialogue
from tests.tasks.benchmarks.long_talk import BENCHMARK
from tests.tasks.dialogue.feedback_participants import DIALOG, PROBLEM

TURNS = (
    Turn(turn=1, role=Role.USER, content="q1"),
    Turn(turn=1, role=Role.ASSISTANT, content="said 1"),
    Turn(turn=2, role=Role.USER, content="q2"),
    Turn(turn=2, role=Role.ASSISTANT, content="golden 2", do_eval=True),
    Turn(turn=3, role=Role.USER, content="q3"),
    Turn(turn=3, role=Role.ASSISTANT, content="said 3", do_eval=False),
    Turn(turn=4, role=Role.USER, content="q4"),
    Turn(turn=4, role=Role.ASSISTANT),
    Turn(turn=5, role=Role.USER, content="q5"),
)


def scripted(*turns: Turn) -> Dialog:
    return DIALOG.model_copy(update={"turns": turns or TURNS})


class Model:
    """Answers with the number of its call, and keeps what it was shown."""

    role = Role.ASSISTANT

    def __init__(self) -> None:
        self.shown: list[Sequence[str]] = []

    async def speak(self, transcript: Transcript) -> Step:
        self.shown.append([m.content for m in messages_of(transcript, HistoryPolicy.ON_POLICY)])
        return Step(
            turn=transcript.turn, role=self.role, content=f"made {len(self.shown)}", n_calls=1
        )


def played(model: Model, dialog: Dialog, context: tuple[Turn, ...] = ()) -> Ending:
    texts = tuple(turn.content or "" for turn in dialog.turns if turn.role is Role.USER)
    cast = Cast(
        subject=partly_scripted(model, dialog),
        counterpart=ScriptedUser(texts),
        max_turns=len(texts) + 1,
    )
    return asyncio.run(
        play_dialogue(Transcript(PROBLEM, dialog, 0, 0, 1, context=context), cast, lambda _: None)
    )


def test_the_model_answers_where_no_script_does_and_is_shown_the_script_s_answers() -> None:
    model = Model()
    ending = played(model, scripted())
    answers = [step for step in ending.steps if step.role is Role.ASSISTANT]
    assert [step.content for step in answers] == ["said 1", "made 1", "said 3", "made 2", "made 3"]
    assert [step.is_scripted for step in answers] == [True, False, True, False, False]
    assert sum(step.n_calls for step in ending.steps) == 3
    assert model.shown[0] == ["q1", "said 1", "q2"]
    assert model.shown[-1] == ["q1", "said 1", "q2", "made 1", "q3", "said 3", "q4", "made 2", "q5"]


def test_due_are_the_generated_rounds_alone() -> None:
    due = BENCHMARK.due("recall", {}, scripted())
    assert (due.rounds, due.answered, due.last_turn) == (3, (2, 4, 5), 5)
    assert due.scores == {(turn, "recalled") for turn in (2, 4, 5)}


def test_of_600_turns_one_is_asked_for() -> None:
    turns = [
        turn
        for n in range(1, 301)
        for turn in (
            Turn(turn=n, role=Role.USER, content="q"),
            Turn(turn=n, role=Role.ASSISTANT, content="a"),
        )
    ]
    turns[-1] = turns[-1].model_copy(update={"do_eval": True})
    model = Model()
    ending = played(model, scripted(*turns))
    assert (len(model.shown), len(model.shown[0]), len(ending.steps)) == (1, 599, 600)


def test_a_context_is_shown_before_the_dialogue_and_is_in_no_step() -> None:
    before = (Turn(turn=1, role=Role.SYSTEM, content="s"), *TURNS[:2])
    model = Model()
    ending = played(model, scripted(Turn(turn=1, role=Role.USER, content="now?")), before)
    assert model.shown == [["s", "q1", "said 1", "now?"]]
    assert [step.content for step in ending.steps] == ["now?", "made 1"]


def test_golden_answers_stand_in_for_its_own_whether_the_dialog_says_or_refers_to_them() -> None:
    dialog = scripted(*TURNS[:4], TURNS[4])
    steps = tuple(Step(turn=t.turn, role=t.role, content=t.content or "") for t in TURNS[:3])
    asked = (
        *steps,
        Step(turn=2, role=Role.ASSISTANT, content="made"),
        Step(turn=3, role=Role.USER, content="q3"),
    )
    shown = messages_of(Transcript(PROBLEM, dialog, 0, 0, 3, steps=asked), HistoryPolicy.REFERENCE)
    assert [message.content for message in shown] == ["q1", "said 1", "q2", "golden 2", "q3"]


def test_an_id_changes_with_the_context_and_with_nothing_else_that_is_new() -> None:
    one, other = (Context.of("b", "v", turns) for turns in (TURNS[:2], TURNS[:3]))
    dialog = scripted()
    digests = {
        dialog.model_copy(update={"context_id": c.context_id, "context_turns": n}).digest
        for c in (one, other)
        for n in (1, 2)
    }
    assert len(digests) == 4
    assert dialog.digest == dialog.row_digest


@pytest.mark.parametrize(
    ("stop", "error", "answers", "reason"),
    [
        (
            StopReason.SUBJECT_ERROR,
            f"openai:m refused round 2 of p: {TOO_LONG}",
            1,
            UnscoredReason.CONTEXT_LENGTH,
        ),
        (StopReason.SUBJECT_ERROR, "no answer in the recording", 1, UnscoredReason.NO_ANSWER),
        (StopReason.INFRA, f"lost: {TOO_LONG}", 1, UnscoredReason.INFRA),
        (StopReason.FINISHED, None, 2, UnscoredReason.INFRA),
    ],
)
def test_why_a_round_has_no_verdict(
    stop: StopReason, error: str | None, answers: int, reason: UnscoredReason
) -> None:
    steps = tuple(Step(turn=n, role=Role.ASSISTANT, content="a") for n in range(1, answers + 1))
    episode = Episode.model_construct(stop_reason=stop, error=error, steps=steps)
    assert reason_of(episode, 2) is reason
    assert reason.is_fault is (reason is not UnscoredReason.CONTEXT_LENGTH)

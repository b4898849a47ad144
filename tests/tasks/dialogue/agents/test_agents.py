"""Agents: what of them is in ids, and how the smallest one takes its turn."""

import asyncio
from dataclasses import replace

import pytest

from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StopReason, ToolCall
from schemas.errors import ConfigError, UnknownName
from schemas.run import AgentIdentity, Sampling
from tasks.dialogue.agents.chain_of_thought import PROMPTS
from tasks.dialogue.agents.contract import AgentRequest
from tasks.dialogue.agents.registry import AGENTS
from tasks.dialogue.chat_subject import ScriptedUser
from tasks.dialogue.engine import Cast, Ending, Participant, Transcript, play_dialogue
from tasks.dialogue.reviewed_subject import CodingSubject
from tests.tasks.benchmarks.noting import AGENT as NOTES
from tests.tasks.dialogue.feedback_participants import DIALOG, PROBLEM, SUITE, Lines, Reports, paid

THOUGHTS = AGENTS.load("chain_of_thought")


def play(
    model: Lines,
    history: HistoryPolicy,
    steps: tuple[Step, ...] = (),
    programs: Reports | None = None,
) -> Ending:
    """Two rounds with the agent as the subject, from these steps on."""

    async def dialogue() -> Ending:
        async with THOUGHTS.begin(AgentRequest({}, model, Sampling(), steps)) as make_subject:
            participant: Participant = make_subject(history)
            if programs is not None:
                participant = CodingSubject(
                    participant,
                    programs,
                    SUITE,
                    code_of=str,
                    recompile=lambda code, error: f"mend {code}: {error}",
                )
            opening = Transcript(PROBLEM, DIALOG, sample=0, seed=0, turn=1, steps=steps)
            return await play_dialogue(
                opening,
                Cast(participant, ScriptedUser(("q1", "q2")), max_turns=9),
                lambda step: None,
            )

    return asyncio.run(dialogue())


SAID = tuple(map(paid, ("thought 1", "a1", "thought 2", "a2")))


def test_reasoning_is_asked_for_first_and_seen_by_nobody_else() -> None:
    model = Lines(SAID)
    ending = play(model, HistoryPolicy.ON_POLICY)
    assert [
        (s.turn, s.kind.value, s.content, s.n_calls)
        for s in ending.steps
        if s.role is Role.ASSISTANT
    ] == [
        (1, "artifact", "thought 1", 1),
        (1, "message", "a1", 1),
        (2, "artifact", "thought 2", 1),
        (2, "message", "a2", 1),
    ]
    reason, answer = PROMPTS["reason"], PROMPTS["answer"]
    assert [[m.content for m in request.messages] for request in model.asked] == [
        [f"q1\n\n{reason}"],
        [f"q1\n\n{reason}", "thought 1", answer],
        ["q1", "a1", f"q2\n\n{reason}"],
        ["q1", "a1", f"q2\n\n{reason}", "thought 2", answer],
    ]
    assert [request.call_index for request in model.asked] == [0, 1, 0, 1]


@pytest.mark.parametrize("done", range(7))
def test_it_goes_on_from_any_step_without_asking_again(done: int) -> None:
    whole = play(Lines(SAID), HistoryPolicy.ON_POLICY)
    n_asked = sum(step.n_calls for step in whole.steps[:done])
    model = Lines(SAID[n_asked:])
    assert play(model, HistoryPolicy.ON_POLICY, whole.steps[:done]) == whole
    assert len(model.asked) == len(SAID) - n_asked


def test_a_refusal_to_reason_is_the_subject_s_failure() -> None:
    ending = play(Lines([paid("", "context_length")]), HistoryPolicy.ON_POLICY)
    assert (ending.stop_reason, [step.n_calls for step in ending.steps]) == (
        StopReason.SUBJECT_ERROR,
        [0, 1],
    )


def test_calls_of_tools_that_nobody_offered_are_dropped() -> None:
    said = [
        replace(answer, calls=(ToolCall(call_id="c", name="run", arguments="{}"),))
        for answer in SAID
    ]
    whole = play(Lines(said), HistoryPolicy.ON_POLICY)
    assert whole == play(Lines(SAID), HistoryPolicy.ON_POLICY)


def test_answers_that_are_programs_may_come_from_an_agent() -> None:
    """The second answer does not compile: reasoning and answer are asked for once more, and cost
    the round's message.
    """
    model = Lines([*map(paid, ("thought 1", "right", "thought 2", "broken", "thought 3", "right"))])
    programs = Reports()
    ending = play(model, HistoryPolicy.LAST_CODE_AND_FEEDBACK, programs=programs)
    assert [
        (s.kind.value, s.content, s.n_calls) for s in ending.steps if s.role is Role.ASSISTANT
    ] == [
        ("artifact", "thought 1", 1),
        ("message", "right", 1),
        ("artifact", "thought 2", 1),
        ("message", "right", 3),
    ]
    assert [code for _, code, _ in programs.asked] == ["right", "broken", "right"]
    assert model.asked[4].messages[0].content.startswith("mend broken: error in broken")
    assert [request.call_index for request in model.asked] == [0, 1, 0, 1, 0, 1]


def test_ids_hold_name_version_prompts_and_the_options_that_were_chosen() -> None:
    assert (
        NOTES.identity({})
        == NOTES.identity({"style": "plain"})
        == AgentIdentity(name="notes", version="1")
    )
    loud = NOTES.identity({"style": "loud"})
    assert (loud.options, NOTES.options_of(loud)) == ((("style", "loud"),), {"style": "loud"})
    assert [name for name, _ in THOUGHTS.identity({}).prompts] == ["answer", "reason"]
    other = replace(THOUGHTS, prompts={**THOUGHTS.prompts, "reason": "Think."})
    assert other.identity({}) != THOUGHTS.identity({})


def test_what_is_unknown_is_refused_by_name() -> None:
    with pytest.raises(
        UnknownName, match=r"unknown agent 'cot'.*chain_of_thought.*parley list agents"
    ):
        AGENTS.load("cot")
    with pytest.raises(UnknownName, match=r"unknown option 'size' of agent notes; known: .*style"):
        NOTES.identity({"size": "big"})
    with pytest.raises(ConfigError, match="style='soft': use one of plain, loud"):
        NOTES.identity({"style": "soft"})

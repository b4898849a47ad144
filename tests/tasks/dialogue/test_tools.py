"""A chat model with tools: its calls are run one by one, and what came of them is told to it and to
nobody else.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StepKind, StopReason, ToolCall
from schemas.run import Sampling
from tasks.dialogue.chat_subject import ChatSubject, ScriptedUser, messages_of
from tasks.dialogue.engine import Cast, Ending, Transcript, play_dialogue
from tasks.dialogue.tools import ToolRefusal, ToolResult
from tasks.language.chat_model import Completion, ToolSpec
from tests.tasks.dialogue.feedback_participants import DIALOG, PROBLEM, Lines, paid


@dataclass
class Doubling:
    """Doubles a number; remembers what it was given."""

    given: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    spec = ToolSpec(
        "double", "Doubles x.", {"type": "object", "properties": {"x": {"type": "number"}}}
    )

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        self.given.append(arguments)
        if "x" not in arguments:
            raise ToolRefusal("double needs x")
        return ToolResult(str(2 * arguments["x"]))


def calling(*calls: tuple[str, str], text: str = "") -> Completion:
    """A completion that calls tools, with ids as an endpoint gives them that counts anew in each
    answer.
    """
    named = tuple(
        ToolCall(call_id=f"call_{n}", name=name, arguments=arguments)
        for n, (name, arguments) in enumerate(calls)
    )
    return replace(paid(text, "tool_calls"), calls=named)


def play(
    said: Sequence[Completion],
    tool: Doubling,
    texts: tuple[str, ...] = ("q",),
    steps: tuple[Step, ...] = (),
) -> tuple[Ending, Lines]:
    model = Lines(said)
    cast = Cast(ChatSubject(model, Sampling(), tools=(tool,)), ScriptedUser(texts), max_turns=9)
    opening = Transcript(PROBLEM, DIALOG, sample=0, seed=0, turn=1, steps=steps)
    return asyncio.run(play_dialogue(opening, cast, lambda step: None)), model


TWO_CALLS = calling(("double", '{"x": 2}'), ("double", '{"x": 3}'), text="I double.")
SAID = (TWO_CALLS, calling(("double", '{"x": 5}')), paid("10"), paid("more"))


def test_each_call_is_run_once_and_its_result_shown_to_the_model() -> None:
    tool = Doubling()
    ending, model = play(SAID, tool, ("q", "and?"))
    assert ending.stop_reason is StopReason.FINISHED
    assert [(s.kind.value, s.role.value, s.content) for s in ending.steps] == [
        ("message", "user", "q"),
        ("tool_call", "assistant", "I double."),
        ("observation", "tool", "4"),
        ("observation", "tool", "6"),
        ("tool_call", "assistant", ""),
        ("observation", "tool", "10"),
        ("message", "assistant", "10"),
        ("message", "user", "and?"),
        ("message", "assistant", "more"),
    ]
    assert [given["x"] for given in tool.given] == [2, 3, 5]
    assert [request.call_index for request in model.asked] == [0, 1, 2, 0]
    assert [[m.role.value for m in request.messages] for request in model.asked[:2]] == [
        ["user"],
        ["user", "assistant", "tool", "tool"],
    ]
    assert [call.call_id for s in ending.steps for call in s.calls] == [
        "call_0",
        "call_1",
        "call_0_2",
    ]
    assert all(request.tools == (tool.spec,) for request in model.asked)


@pytest.mark.parametrize("done", range(10))
def test_a_killed_turn_goes_on_without_asking_or_running_again(done: int) -> None:
    whole, _ = play(SAID, Doubling(), ("q", "and?"))
    kept, tool = whole.steps[:done], Doubling()
    n_asked = sum(step.n_calls for step in kept)
    ending, model = play(SAID[n_asked:], tool, ("q", "and?"), kept)
    assert ending == whole
    assert len(model.asked) == len(SAID) - n_asked
    assert len(tool.given) == 3 - sum(step.kind is StepKind.OBSERVATION for step in kept)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("halve", "{}", "Error: there is no tool 'halve'; there are double"),
        ("double", "x = 2", "Error: the arguments of double are no JSON"),
        ("double", "[2]", "Error: the arguments of double are a list, not an object"),
        ("double", "", "Error: double needs x"),
    ],
)
def test_a_wrong_call_is_told_to_the_model(name: str, arguments: str, told: str) -> None:
    ending, _ = play((calling((name, arguments)), paid("sorry")), Doubling())
    assert ending.steps[2].content.startswith(told)
    assert ending.stop_reason is StopReason.FINISHED


def test_policies_that_show_little_of_the_past_show_all_of_the_turns_own_steps() -> None:
    whole, _ = play(SAID, Doubling(), ("q", "and?"))
    opening = Transcript(PROBLEM, DIALOG, sample=0, seed=0, turn=1, steps=whole.steps[:6])
    shown = {
        policy: messages_of(opening, policy)
        for policy in (HistoryPolicy.LAST_CODE_AND_FEEDBACK, HistoryPolicy.ON_POLICY)
    }
    assert shown[HistoryPolicy.LAST_CODE_AND_FEEDBACK] == shown[HistoryPolicy.ON_POLICY]
    later = replace(opening, turn=2, steps=whole.steps[:8])
    assert [m.content for m in messages_of(later, HistoryPolicy.LAST_CODE_AND_FEEDBACK)] == ["and?"]
    assert len(messages_of(later, HistoryPolicy.ON_POLICY)) == 8
    assert later.texts(Role.ASSISTANT) == ("10",)

"""Tools over an endpoint: in its own format where it has one, else as text; and as a recording
keeps them.
"""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.dialog import Role
from schemas.episode import ToolCall
from schemas.errors import AnswerMissing
from schemas.run import ModelIdentity
from tasks.language.chat_model import UNREADABLE, Message, ToolSpec
from tasks.language.endpoints.answers import read_answer
from tasks.language.endpoints.faults import read_fault
from tasks.language.endpoints.wire import request_body
from tasks.language.recorded_model import (
    RecordedAnswer,
    RecordedModel,
    load_recording,
    write_recording,
)
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.tasks.language.requests import ask, complete, model_on

READ = ToolSpec(
    "read", "Shows a note.", {"type": "object", "properties": {"name": {"type": "string"}}}
)
CALL = ToolCall(call_id="call_0", name="read", arguments='{"name": "x"}')
REQUEST = replace(ask(), tools=(READ,))
AFTER = replace(
    REQUEST,
    messages=(
        *REQUEST.messages,
        Message(Role.ASSISTANT, "I look.", (CALL,)),
        Message(Role.TOOL, "x = 3", call_id="call_0"),
    ),
)


def test_a_request_carries_tools_calls_and_results() -> None:
    body = request_body("m", AFTER)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "read",
                "description": "Shows a note.",
                "parameters": READ.parameters,
            },
        }
    ]
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"name": "x"}'},
                }
            ],
        },
        {"role": "tool", "content": "x = 3", "tool_call_id": "call_0"},
    ]
    assert not {"tools", "response_format"} & set(request_body("m", ask()))


def test_thoughts_go_back_to_an_endpoint_that_demands_them() -> None:
    """DeepSeek and Moonshot refuse calls of thinking models in a history without their thoughts."""
    wanted = Reply(
        status=400,
        message="Missing `reasoning_content` field in the assistant message at message index 1.",
    )
    history = (*REQUEST.messages, replace(AFTER.messages[1], reasoning="I think."), *AFTER.messages)
    with model_server([wanted, Reply(content="done")]) as server:
        answer = complete(server, replace(REQUEST, messages=history))
        sent = [
            [message.get("reasoning_content") for message in body["messages"]]
            for body in server.bodies
        ]
    assert (answer.content, answer.adapted) == ("done", ("reasoning sent back",))
    assert sent == [[None] * 5, [None, "I think.", None, "", None]]


def test_an_answer_schema_is_sent() -> None:
    body = request_body("m", replace(ask(), answer_schema={"type": "object"}))
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_calls_of_an_answer_are_read() -> None:
    with model_server(
        [Reply(content="I look.", calls=(("read", '{"name": "x"}'),), finish_reason="tool_calls")]
    ) as server:
        answer = complete(server, REQUEST)
    assert (answer.content, answer.calls, answer.finish_reason) == (
        "I look.",
        (CALL,),
        "tool_calls",
    )


@pytest.mark.parametrize(
    ("call", "read"),
    [
        ({"function": {"name": "read", "arguments": {"name": "x"}}}, CALL),
        (
            {"id": "z", "function": {"name": "read"}},
            ToolCall(call_id="z", name="read", arguments="{}"),
        ),
    ],
)
def test_calls_are_read_as_careless_servers_write_them(call: object, read: ToolCall) -> None:
    body = {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}
    assert read_answer(json.dumps(body).encode()).calls == (read,)


def test_a_signature_of_thoughts_goes_back_with_its_call() -> None:
    """Gemini refuses a history of calls without the signatures that it gave."""
    call = {
        "id": "z",
        "type": "function",
        "function": {"name": "read", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "c2ln=#"}},
    }
    body = {"choices": [{"message": {"content": None, "tool_calls": [call, {**call, "id": "y"}]}}]}
    calls = read_answer(json.dumps(body).encode()).calls
    result = Message(Role.TOOL, "x = 3", call_id=calls[0].call_id)
    history = (*REQUEST.messages, Message(Role.ASSISTANT, "", calls), result)
    _, assistant, tool = request_body("m", replace(REQUEST, messages=history))["messages"]
    assert assistant["tool_calls"] == [call, {**call, "id": "y"}]
    assert tool["tool_call_id"] == "z"


@pytest.mark.parametrize(
    "call", [{"id": "a"}, {"id": "a", "function": {"name": " "}}, {"id": "a", "function": "read"}]
)
def test_a_call_without_a_name_is_a_call_that_the_model_is_told_of(call: object) -> None:
    """It is the model's error: a retry would not help, and an infra fault would ask for the whole
    dialogue again.
    """
    body = {"choices": [{"message": {"content": "", "tool_calls": [call, "none"]}}]}
    first, second = read_answer(json.dumps(body).encode()).calls
    assert (first.call_id, first.name, json.loads(first.arguments)) == (
        "a",
        UNREADABLE,
        {"call": call},
    )
    assert (second.call_id, second.name) == ("call_1", UNREADABLE)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"name": "x"}', {"name": "x"}),
        ('{"name": "a\nb"}', {"name": "a\nb"}),
        ("", {}),
        ('{"name": ', {"unreadable": '{"name": '}),
        ("[1]", {"unreadable": "[1]"}),
    ],
)
def test_arguments_of_earlier_calls_are_sent_as_json_objects(written: str, sent: object) -> None:
    """vLLM and llama.cpp refuse the whole conversation otherwise, so that one malformed call would
    end the dialogue.
    """
    wrong = CALL.model_copy(update={"arguments": written})
    body = request_body(
        "m", replace(REQUEST, messages=(*REQUEST.messages, Message(Role.ASSISTANT, "", (wrong,))))
    )
    assert json.loads(body["messages"][-1]["tool_calls"][0]["function"]["arguments"]) == sent


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            400,
            (
                '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to '
                "be set"
            ),
        ),
        (500, "tools param requires --jinja flag"),
        (400, "registry/model:latest does not support tools"),
        (404, "No endpoints found that support tool use"),
        (422, "extra fields not permitted: tools"),
        (400, "Unrecognized request argument supplied: tools"),
        (400, "tools are not supported by this model"),
    ],
)
def test_an_endpoint_without_tools_is_told_of_them_as_text(status: int, text: str) -> None:
    assert read_fault(status, text, {}, {"tools": []}).kind == "no_tools"
    assert read_fault(status, text, {}, {}).kind != "no_tools"


def answer_in_text(messages: list[dict[str, object]]) -> str:
    if "Result of read" in str(messages[-1]["content"]):
        return "It is 3."
    return 'I look.\n```tool_calls\n[{"name": "read", "arguments": {"name": "x"}}]\n```'


def in_turn(server: ModelServer, n: int) -> list[tuple[str, tuple[ToolCall, ...], int]]:
    """The same model asked for a call and then for its answer, `n` times."""

    async def scenario() -> list[tuple[str, tuple[ToolCall, ...], int]]:
        model = model_on(server)
        answers = [await model.complete(request) for _ in range(n) for request in (REQUEST, AFTER)]
        await model.aclose()
        return [(a.content, a.calls, a.n_calls) for a in answers]

    return asyncio.run(scenario())


def test_where_tools_are_refused_they_travel_as_text_and_are_offered_once_only() -> None:
    with model_server(answer=answer_in_text, takes_tools=False) as server:
        answers = in_turn(server, 2)
    assert answers == [
        ("I look.", (CALL,), 2),
        ("It is 3.", (), 1),
        ("I look.", (CALL,), 1),
        ("It is 3.", (), 1),
    ]
    assert ["tools" in body for body in server.bodies] == [True, False, False, False, False]


def test_an_option_sends_them_as_text_from_the_first() -> None:
    told = replace(REQUEST, sampling=REQUEST.sampling.model_copy(update={"tools_as_text": True}))
    with model_server(answer=answer_in_text) as server:
        assert complete(server, told).calls == (CALL,)
    assert not any("tools" in body for body in server.bodies)


def test_a_recording_keeps_the_answers_of_a_turn_by_number(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    lines = [
        RecordedAnswer("p", 1, "I look.", calls=(CALL,)),
        RecordedAnswer("p", 1, "It is 3.", step=1),
        RecordedAnswer("p", 2, "b"),
    ]
    write_recording(path, lines)
    assert [set(json.loads(line)) for line in path.read_text().splitlines()] == [
        {"problem_id", "turn", "sample", "content", "calls"},
        {"problem_id", "turn", "sample", "content", "step"},
        {"problem_id", "turn", "sample", "content"},
    ]
    model = RecordedModel(ModelIdentity(provider="recorded", name="r"), load_recording(path))
    first, second = (
        asyncio.run(model.complete(replace(ask(), problem_id="p", call_index=n))) for n in (0, 1)
    )
    assert (first.calls, first.finish_reason, second.content) == ((CALL,), "tool_calls", "It is 3.")
    with pytest.raises(AnswerMissing, match="turn 1, sample 0, step 2"):
        asyncio.run(model.complete(replace(ask(), problem_id="p", call_index=2)))

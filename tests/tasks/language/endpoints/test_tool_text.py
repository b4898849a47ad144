"""Tools within the text of messages: what the model is told, and what is read of its answer,
however loosely it keeps to it.
"""

import json
from dataclasses import replace

import pytest

from schemas.dialog import Role
from schemas.episode import ToolCall
from tasks.language.chat_model import Message, ToolSpec
from tasks.language.endpoints.answer_text import UNREADABLE, calls_in, with_tools_as_text
from tests.tasks.language.requests import ask

WRITE = ToolSpec(
    "write", "Keeps a note.", {"type": "object", "properties": {"text": {"type": "string"}}}
)
READ = ToolSpec("read", "Shows the notes.", {"type": "object"})
TOOLS = (WRITE, READ)
CALL = ToolCall(call_id="c1", name="write", arguments='{"text": "x"}')


def read(content: str) -> tuple[str, list[tuple[str, object]]]:
    text, calls = calls_in(content, TOOLS)
    assert [call.call_id for call in calls] == [f"call_{n}" for n in range(len(calls))]
    return text, [(call.name, json.loads(call.arguments)) for call in calls]


def block(body: str, tag: str = "tool_calls") -> str:
    return f"```{tag}\n{body}\n```\n"


ONE = '{"name": "write", "arguments": {"text": "x"}}'
WRITTEN = ("write", {"text": "x"})


@pytest.mark.parametrize(
    ("content", "text", "calls"),
    [
        ("just words", "just words", []),
        ("I note it.\n" + block(f"[{ONE}]"), "I note it.", [WRITTEN]),
        (block(f'[{ONE}, {{"name": "read"}}]'), "", [WRITTEN, ("read", {})]),
        (block(ONE) + "and\n" + block(ONE, "json"), "and", [WRITTEN, WRITTEN]),
        (block(f"{ONE}\n{ONE}"), "", [WRITTEN, WRITTEN]),
        (f"```tool_calls\n[{ONE}]", "", [WRITTEN]),
        (block(f'{{"tool_calls": [{{"function": {ONE}}}]}}'), "", [WRITTEN]),
        (block('{"tool": "write", "parameters": {"text": "x"}}', ""), "", [WRITTEN]),
        (
            block('{"name": "write", "arguments": {"text": "a\n```\nb"}}'),
            "",
            [("write", {"text": "a\n```\nb"})],
        ),
        (
            block('{"name": "Ann", "age": 3}', "json"),
            block('{"name": "Ann", "age": 3}', "json"),
            [],
        ),
        (block("def f(): pass", "python"), block("def f(): pass", "python"), []),
        (block('{"name": "delete", "arguments": {}}'), "", [("delete", {})]),
    ],
)
def test_calls_are_read_wherever_they_stand(
    content: str, text: str, calls: list[tuple[str, object]]
) -> None:
    assert read(content) == (text, calls)


def test_a_marked_block_that_is_no_json_is_a_call_that_the_model_is_told_of() -> None:
    text, (call,) = calls_in("So:\n" + block('write("x")') + "Done.", TOOLS)
    assert (text, call.name, call.arguments) == ("So:\nDone.", UNREADABLE, 'write("x")')


def test_the_model_is_told_of_tools_calls_and_results() -> None:
    dialogue = (
        Message(Role.SYSTEM, "Be brief."),
        Message(Role.USER, "Note x."),
        Message(
            Role.ASSISTANT,
            "Yes.",
            calls=(CALL, CALL.model_copy(update={"call_id": "c2", "name": "read"})),
        ),
        Message(Role.TOOL, "kept", call_id="c1"),
        Message(Role.TOOL, "x", call_id="c2"),
    )
    sent = with_tools_as_text(replace(ask(), messages=dialogue, tools=TOOLS))
    system, user, called, results = sent.messages
    assert sent.tools == ()
    assert system.content.startswith("Be brief.\n\nYou can use tools.")
    assert (
        '{"name": "write", "description": "Keeps a note.", "arguments": {"type": "object"'
        in system.content
    )
    assert user == dialogue[1]
    assert calls_in(called.content, TOOLS)[1][0].arguments == CALL.arguments
    assert results == Message(Role.USER, "Result of write:\nkept\n\nResult of read:\nx")
    more = with_tools_as_text(
        replace(ask(), messages=(*dialogue, Message(Role.USER, "And?")), tools=TOOLS)
    )
    assert more.messages[-1] == Message(Role.USER, f"{results.content}\n\nAnd?"), (
        "no two messages of the user in a row"
    )


def test_without_a_system_message_the_tools_stand_in_one_of_their_own() -> None:
    sent = with_tools_as_text(replace(ask("Note x."), tools=TOOLS))
    assert [m.role for m in sent.messages] == [Role.SYSTEM, Role.USER]

"""Chat-completions format of agents' requests. Counterpart of `tasks.language.endpoints.wire`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.dialog import Role
from schemas.episode import Step, ToolCall
from tasks.dialogue.agents.repository.tools import FINISH, MESSAGE_USER
from tasks.language.chat_model import Message, ToolSpec


def messages_in(body: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages in the body of an agent's request."""
    return tuple(_message(message) for message in body["messages"])


def tools_in(body: Mapping[str, Any]) -> tuple[ToolSpec, ...]:
    """Return the tools in the body of an agent's request."""
    functions = [tool["function"] for tool in body.get("tools") or ()]
    return tuple(
        ToolSpec(function["name"], function.get("description", ""), function.get("parameters", {}))
        for function in functions
    )


def _message(message: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(
            call_id=call["id"],
            name=call["function"]["name"],
            arguments=call["function"]["arguments"],
        )
        for call in message.get("tool_calls") or ()
    )
    return Message(
        Role(message["role"]), _text(message.get("content")), calls, message.get("tool_call_id")
    )


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content or ""


def completion(answer: Step) -> Mapping[str, Any]:
    """Return a stored answer as the body of an endpoint's response."""
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in with_messages_last(answer.calls)
    ]
    message = {
        "role": "assistant",
        "content": answer.content or None,
        **({"tool_calls": calls} if calls else {}),
    }
    usage = {
        "prompt_tokens": answer.input_tokens or 0,
        "completion_tokens": answer.output_tokens or 0,
    }
    reason = "length" if answer.finish_reason == "length" else "tool_calls" if calls else "stop"
    return {
        "id": "parley",
        "object": "chat.completion",
        "created": 0,
        "model": "parley",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {**usage, "total_tokens": sum(usage.values())},
    }


def with_messages_last(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the calls with messages to the user after all others, except the end of the work.

    Agents run calls in order. A message ends the turn, and each call must have its result within
    its turn.
    """
    messages = [call for call in calls if call.name == MESSAGE_USER]
    others = [call for call in calls if call.name != MESSAGE_USER]
    end = next((n for n, call in enumerate(others) if call.name == FINISH), len(others))
    return (*others[:end], *messages, *others[end:])


def tool_call(body: Mapping[str, Any], call_id: str) -> ToolCall:
    """Return the tool call that the body of an agent's request describes."""
    return ToolCall(
        call_id=call_id, name=str(body["name"]), arguments=json.dumps(body["arguments"])
    )

"""The chat-completions format, as the SDK sends and reads it: the other side of `tasks.language.endpoints.wire`."""

import json
from collections.abc import Mapping
from typing import Any

from schemas.dialog import Role
from schemas.episode import Step, ToolCall
from tasks.language.chat_model import Message, ToolSpec


def messages_in(body: Mapping[str, Any]) -> tuple[Message, ...]:
    """The conversation of a request."""
    return tuple(_message(one) for one in body["messages"])


def tools_in(body: Mapping[str, Any]) -> tuple[ToolSpec, ...]:
    """The tools of a request."""
    named = [one["function"] for one in body.get("tools") or ()]
    return tuple(ToolSpec(one["name"], one.get("description", ""), one.get("parameters", {})) for one in named)


def _message(given: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(call_id=one["id"], name=one["function"]["name"], arguments=one["function"]["arguments"])
        for one in given.get("tool_calls") or ()
    )
    return Message(Role(given["role"]), _text(given.get("content")), calls, given.get("tool_call_id"))


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content or ""


def completion(answer: Step) -> Mapping[str, Any]:
    """A kept answer as the endpoint's body."""
    calls = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.calls
    ]
    said = {"role": "assistant", "content": answer.content or None, **({"tool_calls": calls} if calls else {})}
    used = {"prompt_tokens": answer.input_tokens or 0, "completion_tokens": answer.output_tokens or 0}
    return {
        "id": "parley",
        "object": "chat.completion",
        "created": 0,
        "model": "parley",
        "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {**used, "total_tokens": sum(used.values())},
    }


def tool_call(given: Mapping[str, Any], call_id: str) -> ToolCall:
    """A use of a tool that the SDK asks for."""
    return ToolCall(call_id=call_id, name=str(given["name"]), arguments=json.dumps(given["arguments"]))

"""Tools that a seat may call within its turn."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall
from tasks.language.chat_model import UNREADABLE, ToolSpec


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a tool call."""

    content: str
    tree: str | None = None
    """Digest of the workspace's tree after the call. None if the tool changes no files."""


class ToolRefusal(Exception):
    """Error for arguments that a tool does not accept. The model sees its message."""


class Tool(Protocol):
    """Interface of a tool."""

    @property
    def spec(self) -> ToolSpec:
        """Return the description of the tool for the model."""
        ...

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Execute a call.

        Raises:
            ToolRefusal: The call is impossible. The model sees the message.
            InfraError: A service did not answer. The engine ends the episode as infra, so it stays
                pending.
        """
        ...


async def observe(tools: Sequence[Tool], call: ToolCall, turn: int) -> Step:
    """Execute a call and return its result as a step.

    Wrong tool names and arguments are returned to the model as errors.
    """
    try:
        result = await _tool(tools, call.name).run(_arguments(call))
    except ToolRefusal as refusal:
        result = ToolResult(f"Error: {refusal}")
    return Step(
        turn=turn,
        role=Role.TOOL,
        kind=StepKind.OBSERVATION,
        content=result.content,
        call_id=call.call_id,
        tree=result.tree,
    )


def _tool(tools: Sequence[Tool], name: str) -> Tool:
    tool = next((tool for tool in tools if tool.spec.name == name), None)
    if tool is None:
        wrong = (
            "the call names no tool or is no JSON"
            if name == UNREADABLE
            else f"there is no tool {name!r}"
        )
        raise ToolRefusal(
            f"{wrong}; there are {', '.join(tool.spec.name for tool in tools) or 'none'}"
        )
    return tool


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    try:
        arguments: Any = json.loads(call.arguments or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        raise ToolRefusal(f"the arguments of {call.name} are no JSON ({error})") from None
    if not isinstance(arguments, dict):
        raise ToolRefusal(
            f"the arguments of {call.name} are a {type(arguments).__name__}, not an object"
        )
    return arguments

"""Tools that a seat may call within its turn."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall
from tasks.language.chat_model import UNREADABLE, ToolSpec


@dataclass(frozen=True, slots=True)
class Observed:
    """What came of a call."""

    content: str
    tree: str | None = None
    """Digest of the workspace's tree after it, where the tool changes one."""


class ToolRefusal(Exception):
    """A tool does not take these arguments. Its text is what the model observes."""


class Tool(Protocol):
    """One tool."""

    @property
    def spec(self) -> ToolSpec:
        """What the model is told of it."""
        ...

    async def run(self, arguments: Mapping[str, Any]) -> Observed:
        """Carry out a call.

        Raises:
            ToolRefusal: the model asked for something impossible, and is told so.
            InfraError: a service did not answer; the engine ends the episode as infra, to be pending again.
        """
        ...


async def observe(tools: Sequence[Tool], call: ToolCall, turn: int) -> Step:
    """The step that tells what came of a call. A wrong name and wrong arguments are the model's to read, too."""
    try:
        observed = await _tool(tools, call.name).run(_arguments(call))
    except ToolRefusal as refusal:
        observed = Observed(f"Error: {refusal}")
    return Step(
        turn=turn,
        role=Role.TOOL,
        kind=StepKind.OBSERVATION,
        content=observed.content,
        call_id=call.call_id,
        tree=observed.tree,
    )


def _tool(tools: Sequence[Tool], name: str) -> Tool:
    found = next((tool for tool in tools if tool.spec.name == name), None)
    if found is None:
        wrong = (
            "the call names no tool or is no JSON"
            if name == UNREADABLE
            else f"there is no tool {name!r}"
        )
        raise ToolRefusal(
            f"{wrong}; there are {', '.join(tool.spec.name for tool in tools) or 'none'}"
        )
    return found


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    try:
        given: Any = json.loads(call.arguments or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        raise ToolRefusal(f"the arguments of {call.name} are no JSON ({error})") from None
    if not isinstance(given, dict):
        raise ToolRefusal(
            f"the arguments of {call.name} are a {type(given).__name__}, not an object"
        )
    return given

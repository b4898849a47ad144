# pyright: reportMissingImports=false
"""Driver of the OpenHands SDK's agent, for the Python with the SDK.

Usage: python openhands_driver.py ADDRESS STEPS. It imports nothing of Parley, and leaves out the
SDK's tools that touch this machine.
"""

import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, ClassVar

from openhands.sdk import LLM, Agent, Conversation, TextContent, Tool
from openhands.sdk.event.llm_convertible import ActionEvent, MessageEvent
from openhands.sdk.tool import Action, Observation, ToolDefinition, ToolExecutor, register_tool
from parley_line import LONGEST_S, address, ask
from pydantic import Field, SecretStr


class Result(Observation):
    """Result of a call."""


class BashAction(Action):
    """A command line."""

    command: str = Field(description="the command line")
    timeout_s: float | None = Field(
        default=None, description="seconds that it may take, 120 unless told, at most 600"
    )


class EditAction(Action):
    """A look into a file, or a change of it."""

    command: str = Field(description="view, create, str_replace or insert")
    path: str = Field(description="path of the file in the repository")
    file_text: str | None = Field(default=None, description="of create: the whole text")
    old_str: str | None = Field(
        default=None, description="of str_replace: the text to replace, which must stand there once"
    )
    new_str: str | None = Field(default=None, description="of str_replace and insert: the new text")
    insert_line: int | None = Field(
        default=None, description="of insert: number of the line before it, 0 for the top"
    )
    view_range: list[int] | None = Field(
        default=None, description="of view: first and last line, -1 for the end"
    )


class MessageAction(Action):
    """A message to the user."""

    message: str = Field(description="what to say")


class Remote(ToolExecutor):
    """Executor that sends a call to Parley."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, action: Action, conversation: Any = None) -> Result:
        arguments = action.model_dump(exclude_none=True, exclude={"kind"})
        return Result.from_text(ask("tool", name=self._name, arguments=arguments)["content"])


def one_tool(tool: Any, description: str, action_type: type[Action]) -> Sequence[Any]:
    """Return the one tool of a class, whose calls Parley executes."""
    executor = Remote(tool.name)
    return [
        tool(
            description=description,
            action_type=action_type,
            observation_type=Result,
            executor=executor,
        )
    ]


class BashTool(ToolDefinition[BashAction, Result]):
    """A shell in the repository."""

    name: ClassVar[str] = "bash"

    @classmethod
    def create(cls, conv_state: Any = None, **params: Any) -> Sequence["BashTool"]:
        """Return the one tool."""
        description = (
            "Runs a command line in bash, in the repository. The working directory and exported"
            " variables last from one command to the next; processes do not. There is no network."
        )
        return one_tool(cls, description, BashAction)


class EditFileTool(ToolDefinition[EditAction, Result]):
    """An editor of text files."""

    name: ClassVar[str] = "edit_file"

    @classmethod
    def create(cls, conv_state: Any = None, **params: Any) -> Sequence["EditFileTool"]:
        """Return the one tool."""
        description = (
            "Shows or changes a text file of the repository, by one of the commands view, create,"
            " str_replace and insert."
        )
        return one_tool(cls, description, EditAction)


class MessageUserTool(ToolDefinition[MessageAction, Result]):
    """A message to the user, whose reply is the call's result."""

    name: ClassVar[str] = "message_user"

    @classmethod
    def create(cls, conv_state: Any = None, **params: Any) -> Sequence["MessageUserTool"]:
        """Return the one tool."""
        description = "Sends a message to the user, who asked for the work, and gives the reply."
        return one_tool(cls, description, MessageAction)


def last_words(events: Sequence[Any]) -> str | None:
    """Return the agent's latest message to the user, or None if the work is over."""
    for event in reversed(events):
        if isinstance(event, ActionEvent) and event.tool_name == "finish":
            return None
        if isinstance(event, MessageEvent) and event.source == "user":
            return None  # The SDK gave up, for example because the agent repeated itself.
        if isinstance(event, MessageEvent) and event.source == "agent":
            return "".join(
                part.text for part in event.llm_message.content if isinstance(part, TextContent)
            )
    return None


def main() -> None:
    """Run the conversation until Parley ends this process."""
    tools = (BashTool, EditFileTool, MessageUserTool)
    for tool in tools:
        register_tool(tool.name, tool)
    llm = LLM(
        model="openai/parley",
        base_url=f"{address()}/v1",
        api_key=SecretStr("none"),
        num_retries=0,
        timeout=LONGEST_S,
        usage_id="agent",
    )
    agent = Agent(
        llm=llm,
        tools=[Tool(name=tool.name) for tool in tools],
        include_default_tools=["FinishTool", "ThinkTool"],
    )
    n_steps = int(sys.argv[2])
    with tempfile.TemporaryDirectory() as empty:
        conversation = Conversation(
            agent=agent, workspace=empty, max_iteration_per_run=n_steps + 1, visualizer=None
        )
        conversation.send_message(ask("start", version=version("openhands-sdk"))["message"])
        while True:
            conversation.run()
            words = last_words(list(conversation.state.events))
            if words is None:
                ask("finish")
                return
            conversation.send_message(ask("message", text=words)["reply"])


if __name__ == "__main__":
    main()

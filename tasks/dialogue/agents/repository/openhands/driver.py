# pyright: reportMissingImports=false
"""Runs the SDK's agent, on the Python that has it. It knows one address: there it asks the model, uses tools, and talks.

python driver.py ADDRESS STEPS. Nothing of Parley is imported here, and the SDK's tools that touch this machine are left out.
"""

import json
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, ClassVar

from openhands.sdk import LLM, Agent, Conversation, TextContent, Tool
from openhands.sdk.event.llm_convertible import ActionEvent, MessageEvent
from openhands.sdk.tool import Action, Observation, ToolDefinition, ToolExecutor, register_tool
from pydantic import Field, SecretStr

ADDRESS, STEPS = sys.argv[1], int(sys.argv[2])
LONGEST_S = 86_400


def ask(what: str, **given: Any) -> dict[str, Any]:
    """Send a request to Parley and wait for what it says."""
    data = json.dumps(given).encode()
    request = urllib.request.Request(f"{ADDRESS}/{what}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LONGEST_S) as answer:
        return json.loads(answer.read())


class Seen(Observation):
    """What came of a call."""


class BashAction(Action):
    """A command line."""

    command: str = Field(description="the command line")
    timeout_s: float | None = Field(default=None, description="seconds that it may take, 120 unless told, at most 600")


class EditAction(Action):
    """A look into a file, or a change of it."""

    command: str = Field(description="view, create, str_replace or insert")
    path: str = Field(description="path of the file in the repository")
    file_text: str | None = Field(default=None, description="of create: the whole text")
    old_str: str | None = Field(default=None, description="of str_replace: the text to replace, which must stand there once")
    new_str: str | None = Field(default=None, description="of str_replace and insert: the new text")
    insert_line: int | None = Field(default=None, description="of insert: number of the line before it, 0 for the top")
    view_range: list[int] | None = Field(default=None, description="of view: first and last line, -1 for the end")


class Remote(ToolExecutor):
    """Carries a call out in the episode's workspace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, action: Action, conversation: Any = None) -> Seen:
        arguments = action.model_dump(exclude_none=True, exclude={"kind"})
        return Seen.from_text(ask("tool", name=self._name, arguments=arguments)["content"])


class BashTool(ToolDefinition[BashAction, Seen]):
    """A shell in the repository."""

    name: ClassVar[str] = "bash"

    @classmethod
    def create(cls, conv_state: Any = None, **params: Any) -> Sequence["BashTool"]:
        """The one tool."""
        said = (
            "Runs a command line in bash, in the repository. The working directory and exported variables last from one command"
            " to the next; processes do not. There is no network."
        )
        return [cls(description=said, action_type=BashAction, observation_type=Seen, executor=Remote("bash"))]


class EditFileTool(ToolDefinition[EditAction, Seen]):
    """An editor of text files."""

    name: ClassVar[str] = "edit_file"

    @classmethod
    def create(cls, conv_state: Any = None, **params: Any) -> Sequence["EditFileTool"]:
        """The one tool."""
        said = "Shows or changes a text file of the repository, by one of the commands view, create, str_replace and insert."
        return [cls(description=said, action_type=EditAction, observation_type=Seen, executor=Remote("edit_file"))]


def last_said(events: Sequence[Any]) -> tuple[str, bool]:
    """The agent's latest words to the user, and whether they end the work."""
    for event in reversed(events):
        if isinstance(event, ActionEvent) and event.tool_name == "finish":
            return str(getattr(event.action, "message", "")), True
        if isinstance(event, MessageEvent) and event.source == "agent":
            return "".join(part.text for part in event.llm_message.content if isinstance(part, TextContent)), False
    return "", True


def main() -> None:
    """Talk until Parley ends this process."""
    register_tool("bash", BashTool)
    register_tool("edit_file", EditFileTool)
    llm = LLM(
        model="openai/parley",
        base_url=f"{ADDRESS}/v1",
        api_key=SecretStr("none"),
        num_retries=0,
        timeout=LONGEST_S,
        usage_id="agent",
    )
    agent = Agent(llm=llm, tools=[Tool(name="bash"), Tool(name="edit_file")], include_default_tools=["FinishTool", "ThinkTool"])
    with tempfile.TemporaryDirectory() as empty:
        talk = Conversation(agent=agent, workspace=empty, max_iteration_per_run=STEPS + 1, visualizer=None)
        heard = ask("begun", version=version("openhands-sdk"))
        while True:
            talk.send_message(heard["message"])
            talk.run()
            text, is_over = last_said(list(talk.state.events))
            heard = ask("said", text=text, is_over=is_over)


if __name__ == "__main__":
    main()

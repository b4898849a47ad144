"""Tools, programs and workspaces that a participant of a dialogue may use during a turn."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sandbox.workspace.interface import CommandResult
from schemas.content_id import content_id
from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall
from schemas.problem import Placing, RepoSnapshot, SuiteKind
from schemas.run import Limits
from schemas.verdict import ProgramVerdict
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
    """Interface of a tool that a participant of a dialogue may call."""

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


@dataclass(frozen=True)
class Tree:
    """Files that tests run in. Ids contain their digest, not their location."""

    digest: str
    folder: Path
    """Location of the files. If it is missing, programs in it are unscored."""
    resource: str = ""
    """Name of the run's resource (`--resource NAME=PATH`) that contains `folder`.

    Empty if no resource does.
    """
    packages: str = ""
    """Digest of names and versions of the packages in the folder. Empty if it has none."""

    @property
    def name(self) -> str:
        """Return the digest of files and packages. Verdict ids contain it."""
        return content_id([self.digest, self.packages]) if self.packages else self.digest


NO_TREE = Tree("", Path())
"""Placeholder tree of a program that has an entry point but no source tree."""


@dataclass(frozen=True)
class Place:
    """Location and limits of a program of the kind `pytest`."""

    tree: Tree
    entry_point: str
    """Path, within the tree, of the file that contains the answer."""
    placing: Placing | None = None
    """Position of the answer within the file.

    None if the answer is the complete file and the tree has all tests.
    """
    limits: Limits | None = None
    """Limits of this program. None for the setting's limits."""


@dataclass(frozen=True)
class WantedProgram:
    """Program to run: code with its tests."""

    kind: SuiteKind
    code: str
    tests: tuple[str, ...]
    place: Place | None = None
    limits: Limits | None = None
    """Limits of this program. None for those of its place, or else the setting's limits."""
    image: str = ""
    """Container image of this program alone; empty for the sandbox's own environment."""
    repository: RepoSnapshot | None = None
    """For `patch`: the repository that it applies to. Its digest is the tree of `place`."""


class ProgramRunner(Protocol):
    """Runner of programs for a participant during the dialogue. Equal programs run once."""

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None
    ) -> ProgramVerdict:
        """Run the tests on the code and return the report. Wait for a free sandbox.

        Raises:
            SandboxUnavailable: The sandbox could not run the program. The engine ends the episode
                as infra.
            Unscorable: The program's tree is missing.
        """
        ...


class DialogueWorkspace(Protocol):
    """Workspace that is open for one dialogue. See `sandbox.workspace.workspace.Workspace`."""

    async def shell(self, command: str, limits: Limits | None = None) -> CommandResult:
        """Run a command line and store the state.

        Working directory and exported variables persist from the previous command line.

        Raises:
            SandboxUnavailable: The command line could not run. The engine ends the episode as
                infra.
        """
        ...

    async def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> CommandResult:
        """Run a command and store the state. Raises SandboxUnavailable."""
        ...

    async def read(self, path: str) -> bytes:
        """Return the contents of a file of the tree.

        Raises:
            ValueError: The path leads out of the tree.
            OSError: The file does not exist or cannot be read.
        """
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Write a file of the tree. The next snapshot contains it. Raises the errors of `read`."""
        ...

    async def snapshot(self) -> str:
        """Store the state and return its digest. Raises TreeOverrun if it exceeds its limits."""
        ...


class Workspaces(Protocol):
    """Interface that opens workspaces for the dialogues of a run."""

    def open(
        self, tree: str, *, environment: str = ""
    ) -> AbstractAsyncContextManager[DialogueWorkspace]:
        """Open a workspace in the state of a digest, in the run's sandbox.

        A resumed dialogue opens the tree of its last journaled step.

        Args:
            tree: Digest of a snapshot or a folder. Empty for the files of the environment's image.
            environment: Packages that commands see: digest of a built environment, or name from
                `in_image`. Empty for the packages of Parley's own environment.

        Raises:
            SandboxUnavailable: The run's sandbox has no workspaces.
            CorruptRows: The store does not contain the digest.
        """
        ...

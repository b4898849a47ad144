"""The dialogues of `noting`, taken by an agent that keeps its notes in files: each tool call is a
command in a workspace.
"""

import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas.dialog import Dialog, HistoryPolicy
from schemas.episode import Episode
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.contract import Benchmark, Programs, TestRun
from tasks.benchmarks.setting import Setting
from tasks.dialogue.agents.contract import Agent, AgentRequest, MakeSubject
from tasks.dialogue.chat_subject import ChatSubject
from tasks.dialogue.tools import DialogueWorkspace, Tool, ToolResult
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import find_home
from tests.tasks.benchmarks.noting import BENCHMARK as NOTING
from tests.tasks.benchmarks.noting import N_ROUNDS, ReadNotes, WriteNote, expected


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> Sequence[TestRun]:
    """The last answer, compared with the notes.

    It is graded in a place of its own, not in the agent's.
    """
    right = expected(dialog.dialog_id, N_ROUNDS)
    code = f"notes = {(episode.answer(N_ROUNDS) or '')!r}"
    return (TestRun(N_ROUNDS, BASE_INSTRUCTION, code, (f"assert notes.strip() == {right!r}",)),)


BENCHMARK: Benchmark = replace(
    NOTING,
    settings={"work": Setting(name="work", help="notes are files")},
    programs=Programs(test_runs=test_runs),
)


@dataclass(frozen=True)
class AppendToFile:
    """Adds a note to the file."""

    workspace: DialogueWorkspace
    spec = WriteNote.spec

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        done = await self.workspace.shell(f"echo {shlex.quote(arguments['note'])} >> notes.txt")
        return ToolResult("kept", done.tree)


@dataclass(frozen=True)
class ShowFile:
    """Shows the file in one line of capitals, from a folder that the shell stays in."""

    workspace: DialogueWorkspace
    spec = ReadNotes.spec

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        done = await self.workspace.shell("paste -sd ' ' notes.txt | tr a-z A-Z")
        return ToolResult(done.completed.stdout.decode().strip(), done.tree)


@asynccontextmanager
async def begin(request: AgentRequest) -> AsyncIterator[MakeSubject]:
    """Goes on in the tree of the last step that changed it."""
    assert request.workspaces is not None
    kept = [step.tree for step in request.steps if step.tree is not None]
    async with request.workspaces.open(kept[-1] if kept else _first_tree()) as workspace:
        tools: tuple[Tool, ...] = (AppendToFile(workspace), ShowFile(workspace))

        def make_subject(history: HistoryPolicy) -> ChatSubject:
            return ChatSubject(request.model, request.sampling, history, tools=tools)

        yield make_subject


def _first_tree() -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "notes.txt").touch()
        return TreeStore(find_home().trees).keep(Path(folder)).digest


AGENT = Agent(name="files", version="1", help="keeps notes in files", begin=begin, calls_per_turn=8)

"""A benchmark of dialogues whose turns take many steps, and the agent that takes them: it keeps
notes and reads them.

The model that knows how to play it is `take_notes`, for a model server of the tests.
"""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from schemas.content_id import content_id
from schemas.dialog import Dialog, HistoryPolicy, Role, Turn
from schemas.episode import Score, StepKind
from schemas.problem import Problem
from tasks.benchmarks.contract import Benchmark, Data, Programs, ScoreRequest, Scores, Staged
from tasks.benchmarks.setting import About, Setting
from tasks.dialogue.agents.contract import Agent, AgentOption, AgentRequest, MakeSubject
from tasks.dialogue.chat_subject import ChatSubject
from tasks.dialogue.tools import Tool, ToolRefusal, ToolResult
from tasks.language.chat_model import ToolSpec
from tasks.metrics.registry import metric
from tests.fixtures.model_server import Messages, Reply
from tests.problems import simple_problem

NAME, N_DIALOGS, N_ROUNDS, N_NOTES = "noting", 2, 2, 6
N_TURNS = N_DIALOGS * N_ROUNDS
REQUESTS_A_TURN = N_NOTES + 1
"""The first answer calls two tools, the next ones a tool each, the last none."""
CALLS_A_TURN = N_NOTES + 1
LOG = "NOTING_LOG"
"""Names the file in which each tool notes that it was run, and the agent that it begins and
ends.
"""


def log(line: str) -> None:
    """Add a line to the log."""
    with Path(os.environ[LOG]).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def expected(dialog_id: str, turn: int) -> str:
    """The right answer of a round: all notes of the dialogue so far, loud."""
    return " ".join(
        f"{dialog_id}.{n}.{k}" for n in range(1, turn + 1) for k in range(N_NOTES)
    ).upper()


@metric("notes_right", title="notes")
def notes_right(answer: str | None, right: str) -> float:
    """1 where the answer holds the dialogue's notes, all of them and no others."""
    return float(answer == right)


def stage(source: Path, dataset_version: str) -> Staged:
    """The same dialogues whatever lies at `source`."""
    problems = tuple(map(_problem, range(N_DIALOGS)))
    return Staged(tuple(map(_dialog, problems)), problems, (), n_input=len(problems))


def _problem(number: int) -> Problem:
    digest = content_id(["noting", number])
    return simple_problem(
        f"d{number}",
        f"d{number}",
        "pass",
        benchmark=NAME,
        source_line=number + 1,
        row_digest=digest,
    )


def _dialog(problem: Problem) -> Dialog:
    rounds = range(1, N_ROUNDS + 1)
    said = {n: f"{problem.problem_id}.{n}: take your notes" for n in rounds}
    asked = [
        [Turn(turn=n, role=Role.USER, content=said[n]), Turn(turn=n, role=Role.ASSISTANT)]
        for n in rounds
    ]
    return Dialog(
        benchmark=NAME,
        dataset_version=problem.dataset_version,
        dialog_id=problem.problem_id,
        problem_id=problem.problem_id,
        turns=tuple(turn for pair in asked for turn in pair),
        row_digest=problem.row_digest,
    )


def score(request: ScoreRequest) -> Sequence[Score]:
    """Return 1 for each round whose answer is right, 0 for the others."""
    (played,) = request.played
    episode = played.episode
    values = {
        n: notes_right(episode.answer(n), expected(episode.dialog_id, n))
        for n in range(1, N_ROUNDS + 1)
    }
    return tuple(request.row(played, notes_right, v, turn=n) for n, v in values.items())


BENCHMARK = Benchmark(
    about=About(name=NAME, version="1", title="Noting", paper="none"),
    data=Data(stage=stage, sample=files("tests.tasks.benchmarks")),
    settings={"talk": Setting(name="talk", help="no programs", runs_programs=False)},
    programs=Programs(test_runs=lambda problem, dialog, episode, options: ()),
    scores=Scores(metrics=(notes_right.name,), score=score),
)


@dataclass(frozen=True)
class WriteNote:
    """Adds a note."""

    notes: list[str]
    spec = ToolSpec(
        "write_note",
        "Keeps a note.",
        {"type": "object", "properties": {"note": {"type": "string"}}},
    )

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        if "note" not in arguments:
            raise ToolRefusal("write_note needs a note")
        log(f"tool {arguments['note']}")
        self.notes.append(arguments["note"])
        return ToolResult("kept")


@dataclass(frozen=True)
class ReadNotes:
    """Shows all notes of the dialogue."""

    notes: list[str]
    style: str
    spec = ToolSpec("read_notes", "Shows all notes.", {"type": "object", "properties": {}})

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        log(f"tool {self.notes[-1]} read")
        shown = " ".join(self.notes)
        return ToolResult(shown.upper() if self.style == "loud" else shown)


@asynccontextmanager
async def begin(request: AgentRequest) -> AsyncIterator[MakeSubject]:
    """The notes of an earlier attempt are found in its steps: a note whose call was answered was
    kept.
    """
    answered = {
        (step.turn, step.call_id) for step in request.steps if step.kind is StepKind.OBSERVATION
    }
    calls = [
        call
        for step in request.steps
        for call in step.calls
        if (step.turn, call.call_id) in answered
    ]
    notes = [
        json.loads(call.arguments)["note"] for call in calls if call.name == WriteNote.spec.name
    ]
    log(f"begin {len(notes)}")
    tools: tuple[Tool, ...] = (WriteNote(notes), ReadNotes(notes, request.options["style"]))

    def make_subject(history: HistoryPolicy) -> ChatSubject:
        return ChatSubject(request.model, request.sampling, history, tools=tools)

    try:
        yield make_subject
    finally:
        log("end")


AGENT = Agent(
    name="notes",
    version="1",
    help="keeps notes",
    begin=begin,
    options=(AgentOption("style", "plain", "how notes are shown", ("plain", "loud")),),
    calls_per_turn=REQUESTS_A_TURN,
)


def take_notes(messages: Messages) -> Reply:
    """What the model says next: writes its notes one by one, two at first, reads them all, and says
    what it read.
    """
    last = max(n for n, message in enumerate(messages) if message["role"] == "user")
    name, done = messages[last]["content"].split(":")[0], len(messages) - last - 1
    n_seen = sum(message["role"] == "tool" for message in messages[last:])
    if n_seen > N_NOTES:
        return Reply(content=messages[-1]["content"])
    if n_seen == N_NOTES:
        return Reply(
            content="Now I read.", calls=(("read_notes", "{}"),), finish_reason="tool_calls"
        )
    wanted = range(n_seen, n_seen + (1 if done else 2))
    calls = tuple(("write_note", json.dumps({"note": f"{name}.{k}"})) for k in wanted)
    return Reply(content="", calls=calls, finish_reason="tool_calls")


def take_notes_as_text(messages: Messages) -> Reply:
    """As `take_notes`, where tools are told, called and answered within the text."""
    asked = [
        n
        for n, message in enumerate(messages)
        if message["role"] == "user" and not message["content"].startswith("Result of ")
    ]
    name, later = messages[asked[-1]]["content"].split(":")[0], messages[asked[-1] + 1 :]
    n_seen = sum(
        message["content"].count("Result of ") for message in later if message["role"] == "user"
    )
    if n_seen > N_NOTES:
        return Reply(content=messages[-1]["content"].partition("\n")[2])
    wanted = range(n_seen, n_seen + (1 if later else 2))
    calls = [{"name": "write_note", "arguments": {"note": f"{name}.{k}"}} for k in wanted]
    if n_seen == N_NOTES:
        calls = [{"name": "read_notes", "arguments": {}}]
    return Reply(content=f"```tool_calls\n{json.dumps(calls)}\n```")

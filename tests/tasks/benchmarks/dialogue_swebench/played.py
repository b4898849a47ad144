"""Dialogues of the bundled instances, played with given answers by an agent in a workspace."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.dialog import HistoryPolicy
from schemas.episode import Step, ToolCall
from schemas.run import ModelIdentity, Sampling
from tasks.benchmarks.advanced import CastRequest
from tasks.benchmarks.contract import Benchmark, Staged
from tasks.benchmarks.dialogue_swebench import BENCHMARK
from tasks.dialogue.agents.contract import AgentRequest
from tasks.dialogue.agents.registry import AGENTS
from tasks.dialogue.engine import Ending, Participant, Transcript, play_dialogue, visible_steps
from tasks.language.chat_model import ChatRequest, Completion
from tasks.storage.files.environments import Environments
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home
from tasks.worker.workspaces import RunWorkspaces

Answer = Completion | Callable[[ChatRequest], Completion]
NO_VIOLATION = '{"violations": []}'


def calls(*asked: tuple[str, dict[str, Any]], content: str = "") -> Completion:
    """An answer that calls tools."""
    made = tuple(
        ToolCall(call_id=f"c{n}", name=name, arguments=json.dumps(given))
        for n, (name, given) in enumerate(asked)
    )
    return Completion(
        content=content, finish_reason="tool_calls", calls=made, input_tokens=10, output_tokens=5
    )


def says(text: str) -> Completion:
    """An answer in words."""
    return Completion(content=text, finish_reason="stop", input_tokens=10, output_tokens=5)


@dataclass
class Scripted:
    """A model with its answers in order, the last one again and again; keeps what it was asked."""

    answers: Sequence[Answer]
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        self.identity = ModelIdentity(provider="recorded", name="scripted", revision="1")
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        """The next answer."""
        self.asked.append(request)
        await asyncio.sleep(self.latency_s)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return answer(request) if callable(answer) else answer

    async def aclose(self) -> None:
        """Nothing is open."""

    @property
    def prompts(self) -> str:
        """All that it was shown."""
        return "\n".join(message.content for request in self.asked for message in request.messages)


@dataclass
class Play:
    """One instance, and who plays it."""

    home: Home
    staged: Staged
    problem_id: str
    agent: str | None = "interactive"
    setting: str = "full"
    options: dict[str, str] | None = None
    workspaces: RunWorkspaces | None = None
    """Those of a worker, which its dialogues share; the dialogue's own otherwise."""
    benchmark: Benchmark = BENCHMARK

    def __call__(
        self,
        subject: Scripted,
        user: Scripted | None = None,
        steps: tuple[Step, ...] = (),
        keep: Callable[[Step], None] = lambda step: None,
    ) -> Ending:
        """Play it to its end.

        Args:
            steps: of an attempt that was cut off.
        """
        return asyncio.run(self.played(subject, user, steps, keep))

    async def played(
        self,
        subject: Scripted,
        user: Scripted | None = None,
        steps: tuple[Step, ...] = (),
        keep: Callable[[Step], None] = lambda step: None,
    ) -> Ending:
        """As a call, where an event loop runs."""
        problem = next(one for one in self.staged.problems if one.problem_id == self.problem_id)
        dialog = next(one for one in self.staged.dialogs if one.problem_id == self.problem_id)
        opening = Transcript(problem, dialog, sample=0, seed=0, turn=1, steps=steps)

        def request(make_subject: Callable[[HistoryPolicy], Participant] | None) -> CastRequest:
            return CastRequest(
                setting=self.setting,
                options={},
                problem=problem,
                dialog=dialog,
                subject=subject,
                simulator=user,
                sampling=Sampling(),
                programs=None,  # pyright: ignore[reportArgumentType]  (no participant of this benchmark runs programs)
                make_subject=make_subject,
            )

        if self.agent is None:
            return await play_dialogue(opening, self.benchmark.play.cast(request(None)), keep)
        agent = AGENTS.load(self.agent)
        workspaces = self.workspaces or workspaces_in(self.home)
        options = {option.name: option.default for option in agent.options} | (self.options or {})
        assert problem.repo is not None
        asked = AgentRequest(
            options=options,
            model=subject,
            sampling=Sampling(),
            steps=visible_steps(steps, subject=True),
            workspaces=workspaces,
            tree=problem.repo.tree,
        )
        try:
            async with agent.begin(asked) as make_subject:
                return await play_dialogue(
                    opening, self.benchmark.play.cast(request(make_subject)), keep
                )
        finally:
            if self.workspaces is None:
                workspaces.close()


def workspaces_in(home: Home) -> RunWorkspaces:
    """A worker's workspaces; to be closed."""
    return RunWorkspaces("bubblewrap", TreeStore(home.trees), 2, Environments(home.environments))

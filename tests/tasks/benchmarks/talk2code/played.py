"""Dialogues of the bundled sample, played with given answers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file

from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.problem import Problem
from schemas.run import ModelIdentity, Sampling
from tasks.benchmarks.advanced import CastRequest
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.talk2code import BENCHMARK
from tasks.dialogue.engine import Ending, Transcript, play_dialogue
from tasks.language.chat_model import ChatRequest, Completion
from tests.tasks.benchmarks.ended_episode import ended_episode

STREAK = "python/longest_streak/novice/non_cs_student"


@cache
def sample() -> Staged:
    """The bundled sample, staged."""
    with as_file(BENCHMARK.data.sample) as folder:
        return BENCHMARK.data.stage(folder, "sample")


def dialogue(name: str) -> tuple[Problem, Dialog]:
    """The dialogue of that id with its problem."""
    staged = sample()
    dialog = next(dialog for dialog in staged.dialogs if dialog.dialog_id == name)
    return next(
        problem for problem in staged.problems if problem.problem_id == dialog.problem_id
    ), dialog


@dataclass
class Says:
    """A model that says the given texts, one a call, and keeps what it was asked."""

    texts: Sequence[str]

    def __post_init__(self) -> None:
        self.identity = ModelIdentity(provider="recorded", name="says", revision="1")
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        """The next text."""
        self.asked.append(request)
        return Completion(content=self.texts[len(self.asked) - 1], finish_reason="stop", n_calls=1)

    async def aclose(self) -> None:
        """Nothing is open."""


def play(
    setting: str,
    name: str,
    *texts: str,
    user: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> tuple[Ending, Says, Says]:
    """A dialogue in which the model says these texts, and the simulated user those.

    Returns both models, too.
    """
    problem, dialog = dialogue(name)
    model, simulator = Says(texts), Says(user)
    known = {option.name: option.default for option in BENCHMARK.settings[setting].options}
    request = CastRequest(
        setting=setting,
        options=known | dict(options or {}),
        problem=problem,
        dialog=dialog,
        subject=model,
        simulator=simulator if BENCHMARK.settings[setting].needs_simulator else None,
        sampling=Sampling(),
        programs=None,  # pyright: ignore[reportArgumentType]  (no participant of this benchmark runs programs)
    )
    opening = Transcript(problem, dialog, sample=0, seed=0, turn=1)
    ending = asyncio.run(play_dialogue(opening, BENCHMARK.play.cast(request), lambda step: None))
    return ending, model, simulator


def episode(setting: str, name: str, ending: Ending) -> Episode:
    """The dialogue as the lake keeps it."""
    return ended_episode(setting, dialogue(name)[1], ending)

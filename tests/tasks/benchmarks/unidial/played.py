"""Dialogues of the bundled sample, played with given answers."""

import asyncio
from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file

from schemas.dialog import Dialog, Turn
from schemas.episode import Episode
from schemas.problem import Problem
from schemas.run import Sampling
from tasks.benchmarks.advanced import CastRequest
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.unidial import BENCHMARK
from tasks.dialogue.engine import Transcript, play_dialogue
from tests.tasks.benchmarks.ended_episode import ended_episode
from tests.tasks.benchmarks.talk2code.played import Says


@cache
def sample() -> Staged:
    """The bundled sample, staged."""
    with as_file(BENCHMARK.data.sample) as folder:
        return BENCHMARK.data.stage(folder, "sample")


def dialogue(name: str) -> tuple[Problem, Dialog]:
    """The dialogue of that id with its problem."""
    (dialog,) = (one for one in sample().dialogs if one.dialog_id == name)
    (problem,) = (one for one in sample().problems if one.problem_id == name)
    return problem, dialog


def context_of(dialog: Dialog) -> tuple[Turn, ...]:
    """The turns before its own."""
    known = {context.context_id: context.turns for context in sample().contexts}
    return known[dialog.context_id][: dialog.context_turns] if dialog.context_id else ()


def play(name: str, texts: Sequence[str], max_tokens: int | None = None) -> tuple[Episode, Says]:
    """The dialogue in which the model says these texts, as the lake keeps it, and what the model
    was asked.
    """
    problem, dialog = dialogue(name)
    model = Says(texts)
    request = CastRequest(
        setting=name.partition("/")[0],
        options={},
        problem=problem,
        dialog=dialog,
        subject=model,
        simulator=None,
        sampling=BENCHMARK.settings[name.partition("/")[0]].bounded(
            Sampling(max_tokens=max_tokens)
        ),
        programs=None,  # pyright: ignore[reportArgumentType]  (no participant of this benchmark runs programs)
    )
    opening = Transcript(problem, dialog, sample=0, seed=0, turn=1, context=context_of(dialog))
    ending = asyncio.run(play_dialogue(opening, BENCHMARK.play.cast(request), lambda step: None))
    return ended_episode(request.setting, dialog, ending), model

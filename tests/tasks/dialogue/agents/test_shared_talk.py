"""Dialogues after one talk: its memory is built once, by whichever comes first, and each recalls
what it would have alone.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.episode import Step, StepKind
from schemas.errors import ModelUnavailable
from schemas.run import Sampling
from tasks.dialogue.agents.memory.memory_subject import OF_TALK
from tasks.dialogue.engine import Ending
from tasks.language.chat_model import ChatRequest, Completion
from tasks.storage.paid_calls import TalkAnswers, built_talks
from tests.tasks.dialogue.agents.remembered_talk import GREEDY, LONG, MEMORIES, Talk, Talker

PLACES = ("Dover", "Kiel", "Brig")
TALKS = [
    replace(LONG, name=f"about-{place}", said=(f"Who is the mayor of {place}?",))
    for place in PLACES
]


def together(
    talks: Sequence[Talk],
    agent: str,
    folder: Path,
    model: Talker,
    sampling: Sampling = GREEDY,
    n_processes: int = 1,
) -> list[Ending]:
    """Play them at once. Those of one process share what it holds; processes share the folder."""
    shared = [TalkAnswers(folder) for _ in range(n_processes)]

    async def play() -> list[Ending]:
        playing = (
            talk.play(agent, model, shared=shared[n % n_processes], sampling=sampling)
            for n, talk in enumerate(talks)
        )
        return list(await asyncio.gather(*playing))

    try:
        return asyncio.run(play())
    finally:
        for one in shared:
            one.close()


def messages(ending: Ending) -> list[str]:
    return [step.content for step in ending.steps if step.kind is StepKind.MESSAGE]


def prompts(model: Talker) -> Counter[str]:
    return Counter(request.messages[-1].content for request in model.asked)


def alone(talks: Sequence[Talk], agent: str) -> tuple[Talker, list[Ending]]:
    model = Talker()
    return model, [asyncio.run(talk.play(agent, model)) for talk in talks]


@pytest.mark.parametrize("n_processes", [1, 2])
@pytest.mark.parametrize("agent", MEMORIES)
def test_each_answer_about_the_talk_is_asked_for_once(
    agent: str, n_processes: int, tmp_path: Path
) -> None:
    model, (reference, endings) = Talker(), alone(TALKS, agent)
    played = together(TALKS, agent, tmp_path, model, n_processes=n_processes)
    assert list(map(messages, played)) == list(map(messages, endings))
    assert set(prompts(model)) == set(prompts(reference)), (
        "each is shown what it would have been shown alone"
    )
    assert set(prompts(model).values()) == {1}
    paid = [
        sum(step.n_calls for step in ending.steps if dict(step.labels).get(OF_TALK))
        for ending in played
    ]
    assert sorted(paid)[:-1] == [0, 0], "one of them pays for all"
    assert sum(step.n_calls for ending in played for step in ending.steps) == len(model.asked)


def test_a_later_run_asks_nothing_about_the_talk(tmp_path: Path) -> None:
    first, later = Talker(), Talker()
    together(TALKS[:1], "hipporag", tmp_path, first)
    together(TALKS[1:], "hipporag", tmp_path, later)
    assert not any('"triples"' in prompt for prompt in prompts(later))
    assert list(built_talks(tmp_path).values()) == [len(LONG.context)]


def test_a_shorter_part_of_the_talk_is_known_too(tmp_path: Path) -> None:
    """PersonaMem's questions come after ever more messages of one talk."""
    model = Talker()
    parts = [
        replace(TALKS[0], name=f"after {n}", context=LONG.context[:n], whole=LONG.context)
        for n in (8, len(LONG.context), 14)
    ]
    together(parts, "hipporag", tmp_path, model)
    taken_in = [prompt for prompt in prompts(model).elements() if '"triples"' in prompt]
    assert len(taken_in) == len(set(taken_in)) == len(LONG.context) // 2


def test_where_answers_are_drawn_each_seed_has_a_memory_of_its_own(tmp_path: Path) -> None:
    model, drawn = Talker(), Sampling(temperature=1.0)
    together(TALKS[:1], "hipporag", tmp_path, model, drawn)
    assert {request.seed for request in model.asked} == {0}
    n_asked = len(model.asked)
    together(TALKS[:1], "hipporag", tmp_path, model)
    assert len(model.asked) == 2 * n_asked, "greedy answers are others than those of a seed"


@pytest.mark.parametrize("agent", MEMORIES)
def test_the_one_that_pays_goes_on_from_any_step(agent: str, tmp_path: Path) -> None:
    talk = replace(LONG, said=("Who is Ivo?", "And who is Hal?"))
    [whole] = together([talk], agent, tmp_path / "whole", Talker())
    for done in range(0, len(whole.steps), 3):
        model, shared = Talker(), TalkAnswers(tmp_path / f"{done}")
        again = asyncio.run(talk.play(agent, model, steps=whole.steps[:done], shared=shared))
        shared.close()
        assert again == whole
        assert len(model.asked) == sum(step.n_calls for step in whole.steps[done:])


@pytest.mark.parametrize("agent", MEMORIES)
def test_one_that_pays_nothing_goes_on_from_any_step(agent: str, tmp_path: Path) -> None:
    talk = replace(LONG, said=("Who is Ivo?", "And who is Hal?"))
    [_, whole] = together([LONG, talk], agent, tmp_path, Talker())
    for done in range(len(whole.steps)):
        model, shared = Talker(), TalkAnswers(tmp_path)
        again = asyncio.run(talk.play(agent, model, steps=whole.steps[:done], shared=shared))
        shared.close()
        assert again == whole
        assert len(model.asked) == sum(step.n_calls for step in whole.steps[done:])


class Failing(Talker):
    """Is out of service after some answers."""

    n_left = 5

    async def complete(self, request: ChatRequest) -> Completion:
        self.n_left -= 1
        if self.n_left == 0:
            raise ModelUnavailable("out of service")
        return await super().complete(request)


def test_another_one_goes_on_where_the_first_one_fails(tmp_path: Path) -> None:
    model, kept = Failing(), list[Step]()

    async def play() -> list[Ending]:
        shared = TalkAnswers(tmp_path)
        playing = [talk.play("hipporag", model, shared=shared, keep=kept.append) for talk in TALKS]
        return list(await asyncio.wait_for(asyncio.gather(*playing), 30))

    endings = asyncio.run(play())
    assert [ending.error is None for ending in endings].count(False) == 1
    assert max(prompts(model).values()) == 1, "what the first one was told is kept"


def test_a_talk_that_no_other_dialogue_has_is_not_kept(tmp_path: Path) -> None:
    """What is said in the dialogue itself is in no other one's memory."""
    talk = Talk("own", ("Name Avalon.", "Name Brig.", "Which did I name?"))
    together([talk], "hipporag", tmp_path, Talker())
    assert not list(tmp_path.rglob("*.jsonl"))

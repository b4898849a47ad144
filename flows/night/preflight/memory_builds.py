"""Estimate of the requests with which agents build their memory of earlier conversations.

A talk is a conversation that precedes a dialogue. An agent's memory of a talk is built once, and
all dialogues that follow the talk use it.
"""

import math
from collections.abc import Iterable, Mapping

from flows.night.preflight.earlier_usage import Calls
from tasks.dialogue.agents.memory.shared_talk import talk_name
from tasks.dialogue.agents.registry import AGENTS
from tasks.planning.plan import RunPlan
from tasks.storage.talk_answers import built_talks
from tasks.storage.wanted import WantedEpisode

_CHARACTERS_PER_TOKEN = 4


def turns_to_build(
    plan: RunPlan, episodes: Iterable[WantedEpisode], built: Mapping[str, int]
) -> Mapping[str, int]:
    """Return, by episode id, how many turns of its talk the episode adds to the agent's memory.

    A turn is added by the first episode that needs it.

    Args:
        plan: Plan of the run.
        episodes: Episodes in the order in which they are played.
        built: Number of turns in each talk's memory so far.
    """
    if not asks_about_talks(plan):
        return {}
    n_built, n_turns = dict(built), dict[str, int]()
    is_drawn = plan.spec.sampling.temperature != 0
    for episode in episodes:
        dialog = plan.dialog(episode)
        if dialog.context_id is not None:
            memory_name = talk_name(dialog.context_id, episode.seed if is_drawn else None)
            n_turns[episode.episode_id] = max(0, dialog.context_turns - n_built.get(memory_name, 0))
            n_built[memory_name] = max(n_built.get(memory_name, 0), dialog.context_turns)
    return n_turns


def asks_about_talks(plan: RunPlan) -> bool:
    """Return True if the run's agent sends requests to build a memory of earlier conversations."""
    return (
        plan.spec.agent is not None
        and AGENTS.load(plan.spec.agent.name).calls_per_context_round > 0
    )


def known_talks(plan: RunPlan) -> Mapping[str, int]:
    """Return, for each talk, the number of turns in the stored memory.

    The run's agent and model have built the memory.
    """
    return built_talks(plan.home.talk_answers(plan.spec)) if asks_about_talks(plan) else {}


def talk_calls(
    plan: RunPlan, episode: WantedEpisode, talks: Mapping[str, int], each: float
) -> Calls:
    """Return the calls by which an agent builds its memory of a talk before the first answer.

    The agent sends its requests for each round of the talk separately.

    Args:
        plan: Plan of the run.
        episode: The episode.
        talks: result of `turns_to_build` for all episodes.
        each: Tokens of an answer.
    """
    n_turns = talks.get(episode.episode_id, 0)
    if plan.spec.agent is None or not n_turns:
        return Calls()
    calls_per_round = AGENTS.load(plan.spec.agent.name).calls_per_context_round
    tokens = (
        plan.context_length(plan.dialog(episode))
        * n_turns
        // plan.dialog(episode).context_turns
        // _CHARACTERS_PER_TOKEN
    )
    n = calls_per_round * math.ceil(n_turns / 2)
    return Calls(n, calls_per_round * tokens, n * each)

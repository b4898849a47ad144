"""Episodes that build the memory of a talk. It is built once for all dialogues after the talk."""

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
    """Return the number of talk turns that each episode adds to a memory, by episode id.

    These are the turns that no earlier one of the episodes has added.

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
    """Return True if the run's agent sends requests about a talk before the dialogue."""
    return (
        plan.spec.agent is not None
        and AGENTS.load(plan.spec.agent.name).calls_per_context_round > 0
    )


def known_talks(plan: RunPlan) -> Mapping[str, int]:
    """Return the number of turns in the memory of each talk, built by the run's agent and model."""
    return built_talks(plan.home.talk_answers(plan.spec)) if asks_about_talks(plan) else {}


def talk_calls(
    plan: RunPlan, episode: WantedEpisode, talks: Mapping[str, int], each: float
) -> Calls:
    """Return the calls of an agent before the first answer, for each round of the talk separately.

    Args:
        plan: Plan of the run.
        episode: The episode.
        talks: `turns_to_build` of all episodes.
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

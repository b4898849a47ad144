"""Counts which episodes of a run have to build the memory of a talk: it is built once for all dialogues after the talk."""

import math
from collections.abc import Iterable, Mapping

from flows.night.preflight.earlier_usage import Calls
from tasks.dialogue.agents import registry as agents
from tasks.dialogue.agents.memory.shared_talk import talk_name
from tasks.planning.plan import RunPlan
from tasks.storage.talk_answers import built_talks
from tasks.storage.wanted import WantedEpisode

_CHARACTERS_PER_TOKEN = 4


def turns_to_build(
    plan: RunPlan, episodes: Iterable[WantedEpisode], built: Mapping[str, int]
) -> Mapping[str, int]:
    """Return episode id -> turns of its talk that its agent takes in, and that no earlier one of the episodes does.

    Args:
        built: talk -> number of its turns of which the memory is built already.
    """
    if not asks_about_talks(plan):
        return {}
    known, found = dict(built), dict[str, int]()
    is_drawn = plan.spec.sampling.temperature != 0
    for one in episodes:
        dialog = plan.dialog(one)
        if dialog.context_id is not None:
            talk = talk_name(dialog.context_id, one.seed if is_drawn else None)
            found[one.episode_id] = max(0, dialog.context_turns - known.get(talk, 0))
            known[talk] = max(known.get(talk, 0), dialog.context_turns)
    return found


def asks_about_talks(plan: RunPlan) -> bool:
    """Return whether the run's agent asks about a talk before the dialogue."""
    return (
        plan.spec.agent is not None
        and agents.load(plan.spec.agent.name).calls_per_context_round > 0
    )


def known_talks(plan: RunPlan) -> Mapping[str, int]:
    """Return talk -> turns of which the memory is built by the run's agent and model."""
    return built_talks(plan.home.talk_answers(plan.spec)) if asks_about_talks(plan) else {}


def talk_calls(
    plan: RunPlan, episode: WantedEpisode, talks: Mapping[str, int], each: float
) -> Calls:
    """Return what an agent asks before the first answer, each round of the talk by itself.

    Args:
        talks: `turns_to_build` of all episodes.
        each: tokens of an answer.
    """
    n_turns = talks.get(episode.episode_id, 0)
    if plan.spec.agent is None or not n_turns:
        return Calls()
    asked, dialog = agents.load(plan.spec.agent.name).calls_per_context_round, plan.dialog(episode)
    tokens = plan.context_length(dialog) * n_turns // dialog.context_turns // _CHARACTERS_PER_TOKEN
    n = asked * math.ceil(n_turns / 2)
    return Calls(n, asked * tokens, n * each)

"""Usual requests, tokens and hours of a run's dialogues, measured in earlier runs in the lake.

Runs of the same model and setting are used, or else runs of the same setting, or else of the same
benchmark.

The module also estimates the requests with which agents build their memory of earlier
conversations. A talk is a conversation that precedes a dialogue. An agent's memory of a talk is
built once, and all dialogues that follow the talk use it. The cost of a run is estimated from these
numbers.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from statistics import fmean
from typing import Concatenate, Literal, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from schemas.dialog import Role
from schemas.episode import Episode, Step, StepKind, StopReason
from schemas.grouping import grouped
from schemas.lake.records import RunRecord, ServedHours
from schemas.night.cost import RoleCost
from schemas.run import ModelIdentity
from tasks.dialogue.agents.memory.memory_subject import talk_name
from tasks.dialogue.agents.registry import AGENTS
from tasks.language.providers.registry import is_control
from tasks.planning.participants.access import PlannedModel
from tasks.planning.participants.models import role_cost, stated_price
from tasks.planning.plan import RunPlan
from tasks.storage.paid_calls import built_talks
from tasks.storage.run_rows import WantedEpisode

_MOST_EPISODES = 200
_MOST_JUDGEMENTS = 2000
_ENDED = (StopReason.FINISHED, StopReason.TURN_LIMIT)
CHARACTERS_PER_TOKEN = 4
"""Number that the estimate assumes where nothing was counted."""
Origin = Literal["model", "setting", "benchmark"]
"""Property that earlier runs share with a run. `model` stands for model and setting."""
T = TypeVar("T")
Arguments = ParamSpec("Arguments")


def once_per_plan(
    function: Callable[Concatenate[RunPlan, Arguments], T],
) -> Callable[Concatenate[RunPlan, Arguments], T]:
    """Return the function with a cache of its results, by plan and further arguments.

    A plan's results are dropped with the plan.
    """
    results: WeakKeyDictionary[RunPlan, dict[object, T]] = WeakKeyDictionary()

    @wraps(function)
    def cached(plan: RunPlan, *args: Arguments.args, **keys: Arguments.kwargs) -> T:
        of_plan, key = results.setdefault(plan, {}), (args, *keys.items())
        if key not in of_plan:
            of_plan[key] = function(plan, *args, **keys)
        return of_plan[key]

    return cached


@dataclass(frozen=True)
class Calls:
    """Number of requests to one model, and of their input and output tokens."""

    calls: int = 0
    input_tokens: float = 0
    output_tokens: float = 0

    def __add__(self, other: "Calls") -> "Calls":
        return Calls(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True)
class Usage:
    """Mean tokens per request of one role.

    Attributes:
        input_tokens: Mean tokens of a request. None if no endpoint counted them, or if only other
            settings were measured.
        output_tokens: Mean tokens of an answer.
    """

    input_tokens: float | None
    output_tokens: float


@dataclass(frozen=True)
class Measured:
    """Means over finished dialogues of earlier runs.

    Attributes:
        origin: Property that the earlier runs share with this run.
        answers: Mean answers of the model under test per dialogue. None if only other settings were
            measured.
        calls: Mean requests to the model under test per dialogue, including those with tool
            results. None if only other settings were measured.
        subject: Usage of the model under test.
        simulator: Usage of the simulated user. None if no simulated user answered.
    """

    origin: Origin
    answers: float | None
    calls: float | None
    subject: Usage
    simulator: Usage | None


def _nearest(items: Sequence[tuple[T, str, str]], plan: RunPlan) -> tuple[Origin, list[T]]:
    """Return the items of (item, model, setting) that have most in common with the run."""
    spec = plan.spec
    same = [(item, model) for item, model, setting in items if setting == spec.setting]
    if own := [item for item, model in same if model == spec.label]:
        return "model", own
    if same:
        return "setting", [item for item, _ in same]
    return "benchmark", [item for item, *_ in items]


def _played(plan: RunPlan) -> tuple[Origin, list[Episode]]:
    """Return the newest finished dialogues of earlier runs with the same agent.

    The first value says what these runs share with this run.
    """
    end = f"+{plan.spec.agent.name}" if plan.spec.agent else ""
    played: list[tuple[Episode, str, str]] = []
    n_own = 0
    for part in _newest_parts(plan, "episodes"):
        for episode in plan.lake.read_part("episodes", Episode, part):
            has_agent = episode.model.endswith(end) if end else "+" not in episode.model
            if episode.stop_reason in _ENDED and has_agent and not is_control(episode.model):
                played.append((episode, episode.model, episode.setting))
                n_own += episode.model == plan.spec.label and episode.setting == plan.spec.setting
        if n_own >= _MOST_EPISODES or len(played) >= 4 * _MOST_EPISODES:
            break
    origin, episodes = _nearest(played, plan)
    return origin, episodes[:_MOST_EPISODES]


def _newest_parts(plan: RunPlan, table: str) -> list[Path]:
    parts = plan.lake.parts(table, benchmark=plan.spec.benchmark)
    return sorted(parts, key=lambda part: part.stat().st_mtime_ns, reverse=True)


@once_per_plan
def measured_by_plan(plan: RunPlan) -> Measured | None:
    """Return the means for a run, or None without comparable dialogues.

    The lake is read once per plan.
    """
    origin, episodes = _played(plan)
    answered = [[step for step in episode.steps if _is_answer(step)] for episode in episodes]
    answered = [steps for steps in answered if steps]
    if not answered:
        return None
    is_same = origin != "benchmark"
    answers = fmean(sum(step.kind is StepKind.MESSAGE for step in steps) for steps in answered)
    calls = fmean(sum(max(1, step.n_calls) for step in steps) for steps in answered)
    replies = [
        step
        for episode in episodes
        for step in episode.steps
        if step.role is Role.USER and step.n_calls
    ]
    return Measured(
        origin=origin,
        answers=answers if is_same else None,
        calls=calls if is_same else None,
        subject=_usage([step for steps in answered for step in steps], is_same),
        simulator=_usage(replies, is_same) if replies else None,
    )


def _usage(steps: Sequence[Step], is_same: bool) -> Usage:
    n_calls = sum(max(1, step.n_calls) for step in steps)
    counted = [step.input_tokens for step in steps if step.input_tokens is not None]
    return Usage(
        sum(counted) / n_calls if is_same and len(counted) == len(steps) else None,
        sum(map(_tokens, steps)) / n_calls,
    )


def _is_answer(step: Step) -> bool:
    return (
        step.role is Role.ASSISTANT
        and not step.is_scripted
        and step.kind in (StepKind.MESSAGE, StepKind.TOOL_CALL)
    )


def _tokens(step: Step) -> int:
    if step.output_tokens is not None:
        return step.output_tokens
    return (
        len(step.content) + sum(len(call.arguments) for call in step.calls)
    ) // CHARACTERS_PER_TOKEN


@once_per_plan
def judge_usage(plan: RunPlan, rubric: str) -> Usage | None:
    """Return means over the newest judgements by a rubric, or None if there are none.

    Judgements of the run's own judge are preferred. The lake is read once per plan.
    """
    judge, usages = plan.judges[rubric].access.label, dict[str, tuple[bool, int, int]]()
    names = ["rubric", "judge", "judgement_id", "n_calls", "input_tokens", "output_tokens"]
    for part in _newest_parts(plan, "judge_verdicts"):
        for row in plan.lake.read_arrow("judge_verdicts", [part], names).to_pylist():
            if (
                row["rubric"] == rubric
                and row["n_calls"]
                and None not in (row["input_tokens"], row["output_tokens"])
            ):
                usages[row["judgement_id"]] = (
                    row["judge"] == judge,
                    row["input_tokens"],
                    row["output_tokens"],
                )
        if len(usages) >= _MOST_JUDGEMENTS:
            break
    own = [usage for usage in usages.values() if usage[0]] or list(usages.values())
    if not own:
        return None
    return Usage(fmean(n_input for _, n_input, _ in own), fmean(n_output for _, _, n_output in own))


@once_per_plan
def usual_hours(plan: RunPlan, role: str, identity: ModelIdentity) -> float | None:
    """Return the hours per dialogue for which the server of a role's model usually runs.

    Return None if no earlier run shows it. The lake is read once per plan.
    """
    served = plan.lake.read("served_hours", ServedHours, benchmark=plan.spec.benchmark)
    by_run = grouped(((row.model, row.run_id), row) for row in served if row.role == role)
    records = plan.lake.read("runs", RunRecord, benchmark=plan.spec.benchmark) if by_run else []
    settings = {record.run_id: record.setting.partition(".")[2] for record in records}
    usages: list[tuple[tuple[float, int], str, str]] = []
    for (model, run_id), rows in by_run.items():
        hours_of_rows = [row.hours for row in rows if row.hours is not None]
        keys = {"benchmark": plan.spec.benchmark, "model": model, "run_id": run_id}
        parts = plan.lake.parts("episodes", **keys)
        ids = plan.lake.read_arrow("episodes", parts, ["episode_id"]) if parts else ()
        n_episodes = len(ids)
        if len(hours_of_rows) == len(rows) and n_episodes:
            is_same = rows[0].role_model == identity.label
            own = rows[0].model if role == "subject" else plan.spec.label if is_same else ""
            usages.append(((sum(hours_of_rows), n_episodes), own, settings.get(run_id, "")))
    _, nearest = _nearest(usages, plan)
    return sum(hours for hours, _ in nearest) / sum(n for _, n in nearest) if nearest else None


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
    agent = plan.spec.agent
    return agent is not None and AGENTS.load(agent.name).calls_per_context_round > 0


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
        each: Number of tokens of an answer.
    """
    n_turns = talks.get(episode.episode_id, 0)
    if plan.spec.agent is None or not n_turns:
        return Calls()
    dialog = plan.dialog(episode)
    calls_per_round = AGENTS.load(plan.spec.agent.name).calls_per_context_round
    n_characters = plan.context_length(dialog) * n_turns // dialog.context_turns
    tokens = n_characters // CHARACTERS_PER_TOKEN
    n = calls_per_round * math.ceil(n_turns / 2)
    return Calls(n, calls_per_round * tokens, n * each)


@dataclass(frozen=True)
class RoleRequests:
    """Requests of a role (subject, simulator, judge) to its model."""

    model: PlannedModel
    calls: Calls


def estimated_costs(
    plan: RunPlan, role_requests: Iterable[RoleRequests], n_dialogues: int
) -> list[tuple[RoleRequests, RoleCost]]:
    """Return each role's requests with their cost: tokens by price, and a share of server hours.

    Args:
        plan: Plan of the run.
        role_requests: Requests of each role.
        n_dialogues: Number of dialogues that the requests belong to. 0 if no server is started for
            them.
    """
    costs: list[tuple[RoleRequests, RoleCost]] = []
    served = set[tuple[str, ModelIdentity]]()
    for requests in role_requests:
        model, calls = requests.model, requests.calls
        # Several rubrics share the hours of their judge.
        is_first = (model.role, model.identity) not in served
        hours = _hours(plan, model, n_dialogues) if is_first else 0.0
        served.add((model.role, model.identity))
        cost = role_cost(plan.lake, model, (calls.input_tokens, calls.output_tokens, 0), hours)
        costs.append((requests, replace(cost, price=stated_price(plan.lake, model))))
    return costs


def _hours(plan: RunPlan, model: PlannedModel, n_dialogues: int) -> float | None:
    if not n_dialogues or not model.request.is_served_here:
        return 0.0
    each = usual_hours(plan, model.role, model.identity)
    return None if each is None else each * n_dialogues


def unknown_hours(costs: Iterable[tuple[RoleRequests, RoleCost]]) -> tuple[str, ...]:
    """Return the models with a price per hour whose server time no earlier run measured."""
    unknown = (
        requests.model.identity.label
        for requests, cost in costs
        if cost.usd_per_hour is not None and cost.hours is None
    )
    return tuple(dict.fromkeys(unknown))

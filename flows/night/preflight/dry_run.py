"""Estimate of a run's work and cost before it starts."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from flows.night.preflight.assumed_requests import (
    judge_calls,
    judge_requests,
    player_requests,
    simulator_calls,
    subject_calls,
)
from flows.night.preflight.earlier_usage import (
    Calls,
    Origin,
    estimated_costs,
    known_talks,
    measured_by_plan,
    turns_to_build,
    unknown_hours,
)
from schemas.audit import AUDIT_SAMPLE
from schemas.night.cost import sum_usd, sum_usd_hourly
from tasks.language.endpoints.request_parts import secret_variables
from tasks.language.providers.contract import ServeRequest
from tasks.language.providers.registry import PROVIDERS, provider_of
from tasks.planning.plan import RunPlan
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.journaling.dialogue_calls import read_unfinished

_NONE = pa.chunked_array([], pa.string())


@dataclass(frozen=True)
class Estimate:
    """Estimated work and cost of one run.

    `calls` and tokens are the subject's. `usd` and `usd_hourly` cover all models
    (`schemas.night.cost`).
    """

    run_id: str
    benchmark: str
    model: str
    episodes: int
    pending: int
    calls: int
    input_tokens: int
    output_tokens: int
    simulator_calls: int
    simulator_input_tokens: int
    simulator_output_tokens: int
    judge_calls: int
    """Number of judgements to request.

    These are the pending judgements of stored dialogues, one per round or dialogue of pending
    dialogues, and the drift cases.
    """
    judge_input_tokens: int
    """Input tokens of judgements, each with its rubric and the dialogue up to the judged turn."""
    judge_output_tokens: int
    audits_at_most: int | None
    """Number of passes to audit. None stands for all passes.

    It is 0 if the setting runs no programs or `audit` is `none`.
    """
    at_most: bool
    """True if counts, tokens and cost assume dialogues of usual length (`usual`) and are not exact.

    Dialogues or an agent's turns may end early, rubrics may skip rounds, and equal judgements are
    requested once.
    """
    usd: float | None
    """Cost of tokens. None if a price is unknown or all models cost only by the hour."""
    usd_hourly: float | None
    """Cost of model servers. None if the hours of one are unknown or no server has a price."""
    hours_unknown: tuple[str, ...]
    """Models with a price per hour whose server time is unknown, since no earlier run measured it.
    """
    learned_from: Origin | None
    """Property that this run shares with the earlier runs behind the estimate.

    `model` stands for model and setting. None if tokens are assumed.
    """
    serves: tuple[str, ...]
    """Commands that would start vLLM, one per replica. PORT stands for a free port."""
    keys_not_set: tuple[tuple[str, str], ...]
    """(variable, model) of each key that pending work needs but the environment lacks."""


def estimate(plan: RunPlan, counted: pa.ChunkedArray = _NONE) -> Estimate:
    """Count the pending requests, excluding those whose answers the journal already contains.

    Args:
        plan: Plan of the run.
        counted: Ids of episodes that the estimate of another run contains.
    """
    pending = plan.pending().without(counted)
    unfinished = read_unfinished(plan.home.journal(plan.run_id), pending.ids.to_pylist())
    subject = simulator = Calls()
    talks = turns_to_build(plan, pending, known_talks(plan))
    for episode in pending:
        begun = unfinished.get(episode.episode_id)
        subject += subject_calls(plan, episode, begun, talks)
        simulator += simulator_calls(plan, episode, begun)
    judged, n_judged = judge_calls(plan, pending)
    judge = sum(judged.values(), Calls())
    to_judges = (judge_requests(plan, rubric, calls) for rubric, calls in judged.items())
    costs = [
        *estimated_costs(plan, player_requests(plan, subject, simulator), len(pending)),
        *estimated_costs(plan, to_judges, n_judged),
    ]
    measured = measured_by_plan(plan)
    return Estimate(
        run_id=plan.run_id,
        benchmark=plan.spec.full_setting,
        model=plan.spec.label,
        episodes=len(plan.wanted),
        pending=len(pending),
        calls=subject.calls,
        input_tokens=round(subject.input_tokens),
        output_tokens=round(subject.output_tokens),
        simulator_calls=simulator.calls,
        simulator_input_tokens=round(simulator.input_tokens),
        simulator_output_tokens=round(simulator.output_tokens),
        judge_calls=judge.calls,
        judge_input_tokens=round(judge.input_tokens),
        judge_output_tokens=round(judge.output_tokens),
        audits_at_most=_audits_at_most(plan),
        at_most=not plan.has_exact_rounds or plan.spec.agent is not None or judge.calls > 0,
        usd=sum_usd(cost for _, cost in costs),
        usd_hourly=sum_usd_hourly(cost for _, cost in costs),
        hours_unknown=unknown_hours(costs),
        learned_from=measured.origin if measured else None,
        serves=_serves(plan, of_players=bool(pending), of_judges=judged.keys()),
        keys_not_set=_keys_not_set(plan, of_players=bool(pending), of_judges=judged.keys()),
    )


def _audits_at_most(plan: RunPlan) -> int | None:
    if not plan.audits:
        return 0
    return AUDIT_SAMPLE if plan.spec.audit == "sample" else None


def _keys_not_set(
    plan: RunPlan, *, of_players: bool, of_judges: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    players = (plan.subject, plan.simulator) if of_players else ()
    needed = {
        (name, access.label): None
        for access in (*players, *(plan.judges[rubric].access for rubric in of_judges))
        if access is not None
        for name in PROVIDERS.load(access.identity.provider).secret_variables(access.endpoint)
    }
    embedder = plan.embedder if of_players else None
    if embedder is not None and embedder.identity.is_hosted:
        variables = secret_variables(embedder.endpoint)
        needed |= {(name, embedder.label): None for name in variables}
    return tuple((name, model) for name, model in needed if not os.environ.get(name, "").strip())


def _serves(plan: RunPlan, *, of_players: bool, of_judges: Iterable[str]) -> tuple[str, ...]:
    players = [plan.spec.subject, plan.spec.simulator] if of_players else []
    needed = (*players, *(plan.judges[rubric].access.identity for rubric in of_judges))
    shown: Counter[str] = Counter()
    for model in plan.models:
        access, request = model.access, model.request
        commands = PROVIDERS.load(model.identity.provider).serve_commands
        if model.identity in needed and commands is not None:
            wanted = ServeRequest(access, request.serve, request.revision, plan.home.logs)
            shown |= Counter(commands(wanted))
    return tuple(f"{command}  # {n} times" if n > 1 else command for command, n in shown.items())


_REVISION = "vllm-not-here"


def plannable_without_vllm(
    requests: Sequence[EvaluationRequest], print_line: Callable[[str], object]
) -> list[EvaluationRequest]:
    """Return the requests in a form that a dry run can plan. Print which models need vLLM."""
    models = {
        id(model): model for request in requests if not request.resume for model in request.models
    }
    absent = {
        key: model.model_copy(update={"revision": _REVISION})
        for key, model in models.items()
        if _lacks_its_engine(model)
    }
    if absent:
        names = ", ".join(sorted({model.label for model in absent.values()}))
        print_line(
            f"vLLM is not installed on this machine. Its version is part of the ids of runs of"
            f" {names}, so finished episodes cannot be found: all episodes of these runs are"
            " counted as pending"
        )
    return [_with(request, absent) for request in requests]


def _lacks_its_engine(model: ModelRequest) -> bool:
    """Return True if the model's revision depends on a program that is not installed here."""
    provider = provider_of(model.spec)
    return (
        provider is not None
        and not model.revision
        and provider.lacks_engine(model.spec.partition(":")[2], model.serve)
    )


def _with(request: EvaluationRequest, absent: dict[int, ModelRequest]) -> EvaluationRequest:
    roles = {"model": request.model, "simulator": request.simulator}
    changed = {role: absent.get(id(model), model) for role, model in roles.items()}
    judges = {rubric: absent.get(id(judge), judge) for rubric, judge in request.judges.items()}
    return request.model_copy(update={**changed, "judges": judges})

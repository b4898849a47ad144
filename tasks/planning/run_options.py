"""Decides the options and the agent of a run, and whether batches suit it."""

from collections.abc import Callable, Iterable

from schemas.errors import ConfigError
from schemas.lake.records import RunRecord
from schemas.run import AgentIdentity, ModelIdentity, RunSpec
from tasks.benchmarks.contract import Benchmark, Due
from tasks.dialogue.agents.registry import AGENTS
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


def run_options(
    request: EvaluationRequest,
    benchmark: Benchmark,
    setting: str,
    subject: ModelIdentity,
    resumed: RunSpec | None,
    home: Home,
) -> dict[str, str]:
    """Return the request's options, with those that new runs of models that are asked have (`Option.new_runs`).

    A run that is resumed keeps its own. So does a model whose runs with the same options lie in the lake and were begun before
    the setting had the option: its finished dialogues and scores stay valid, and later runs of it can be compared with them.
    """
    given = request.benchmark.options
    new = benchmark.new_run_options(setting, given)
    if not new or not request.model.converses:
        return given
    if resumed is not None:
        chosen = dict(resumed.episode_options + resumed.scoring_options)
        return {**given, **{name: chosen[name] for name in new if name in chosen}}
    label = subject.label + (f"+{request.model.agent}" if request.model.agent else "")
    records = Lake(home.lake).read("runs", RunRecord, benchmark=benchmark.name, model=label)
    specs = [RunSpec.model_validate_json(record.spec_json) for record in records]
    version = request.benchmark.dataset_version or benchmark.data.default_version
    alike = [
        (spec.episode_options, spec.scoring_options)
        for spec in specs
        if (spec.setting, spec.dataset_version, spec.subject, spec.sampling)
        == (setting, version, subject, request.model.sampling)
    ]
    both = {**given, **new}
    is_older = (
        benchmark.split_options(setting, given) in alike
        and benchmark.split_options(setting, both) not in alike
    )
    return given if is_older else both


def chosen_agent(model: ModelRequest) -> AgentIdentity | None:
    """Return who sits in the subject's seat; None for the bare model.

    Raises:
        ConfigError: options of an agent, and no agent.
        UnknownName: no such agent.
    """
    if model.agent is None and model.agent_options:
        raise ConfigError(
            f"options of an agent ({', '.join(model.agent_options)}), but no agent: name one by --agent NAME"
        )
    return None if model.agent is None else AGENTS.load(model.agent).identity(model.agent_options)


def require_batchable(request: EvaluationRequest, find_dues: Callable[[], Iterable[Due]]) -> None:
    """Refuse batches where one answer waits for another: each would take up to a day.

    Args:
        find_dues: what an episode of each dialog must have; called where batches are asked for.

    Raises:
        ConfigError: batches for a simulator, an embedder or an agent, or for a model in a setting of several rounds.
    """
    for role, model in (("simulator", request.simulator), ("embedder", request.embedder)):
        if model is not None and model.batch:
            raise ConfigError(
                f"batches are for judges and for models under test in settings of one round, not for the {role}"
            )
    if not request.model.batch:
        return
    if request.model.agent is not None:
        raise ConfigError(
            f"agent {request.model.agent!r} asks one request after another: leave out --batch (`batch`)"
        )
    rounds = max((one.rounds for one in find_dues()), default=0)
    if rounds > 1:
        raise ConfigError(
            f"{request.benchmark.name} has up to {rounds} rounds, each of which would wait for a batch of its own: leave out"
            " --batch (`batch`). Batches are for judges and for settings of one round"
        )

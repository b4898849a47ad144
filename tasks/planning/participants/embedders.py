"""Choice of a run's embedder. Only settings and agents that read vectors use one."""

from dataclasses import replace
from datetime import UTC, datetime

from schemas.errors import ConfigError
from schemas.run import EmbedderIdentity, RunSpec
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.setting import Setting
from tasks.dialogue.agents.registry import AGENTS
from tasks.language.access import ModelAccess
from tasks.language.endpoints.request_parts import check_request_fields
from tasks.language.model_spec import parse_embedder
from tasks.planning.participants.choice import find_setting, policy_of, with_connection
from tasks.planning.request import EvaluationRequest


def choose_embedder(
    request: EvaluationRequest, benchmark: Benchmark, setting: str, resumed: RunSpec | None
) -> ModelAccess[EmbedderIdentity] | None:
    """Return the embedder; None if neither the setting nor the agent needs one.

    A request may name an embedder that its setting does not need, because a night may have settings
    of both kinds.

    Raises:
        UsageError: an embedder is needed, but none is named, or it is unknown or not installed.
    """
    if not (_needs_embedder(benchmark.setting(setting)) or _agent_needs_embedder(request)):
        return None
    model = request.embedder
    if model is None:
        user = (
            f"agent {request.model.agent}"
            if _agent_needs_embedder(request)
            else f"{benchmark.name}.{setting}"
        )
        raise ConfigError(
            f"{user} compares texts by their vectors. Name an embedder with --embedder SPEC "
            "(`embedder` in a night's configuration): bge-m3, openai:MODEL@BASE_URL, or "
            "embedded:minilm, which needs no network"
        )
    earlier_revision = (
        resumed.embedder.revision
        if resumed and resumed.embedder and resumed.embedder.is_hosted
        else None
    )
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    fields = check_request_fields(model.request)
    access = parse_embedder(
        model.spec,
        key_env=model.key_env,
        revision=model.revision or earlier_revision,
        today=today,
        request=fields,
    )
    return replace(
        access,
        endpoint=with_connection(access.endpoint, model),
        policy=policy_of(model, request.concurrency),
    )


def is_in_play(request: EvaluationRequest, setting: Setting) -> bool:
    """Return True if a participant uses vectors, so that the embedder can change the dialogue."""
    return setting.embedder_in_play or _agent_needs_embedder(request)


def _needs_embedder(setting: Setting) -> bool:
    return setting.needs_embedder or setting.embedder_in_play


def _agent_needs_embedder(request: EvaluationRequest) -> bool:
    return request.model.agent is not None and AGENTS.load(request.model.agent).needs_embedder


def refuse_needless_embedder(request: EvaluationRequest) -> None:
    """Raise ConfigError if the request names an embedder that its setting does not need."""
    if request.embedder is None or _agent_needs_embedder(request):
        return
    benchmark, setting = find_setting(request.benchmark.name)
    if not _needs_embedder(benchmark.setting(setting)):
        raise ConfigError(
            f"--embedder {request.embedder.spec}: {benchmark.name}.{setting} uses no vectors. "
            "Remove the option"
        )

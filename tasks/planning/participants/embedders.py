"""Chooses a run's embedder: settings and agents that read vectors need one, others take none."""

from dataclasses import replace
from datetime import UTC, datetime

from schemas.errors import ConfigError
from schemas.run import RunSpec
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.setting import Setting
from tasks.dialogue.agents.registry import AGENTS
from tasks.language.embedder_spec import EmbedderChoice, parse_embedder
from tasks.language.endpoints.request_fields import check_request_fields
from tasks.planning.participants.choice import find_setting, reached
from tasks.planning.request import EvaluationRequest


def choose_embedder(
    request: EvaluationRequest, benchmark: Benchmark, setting: str, resumed: RunSpec | None
) -> EmbedderChoice | None:
    """The embedder; None where nothing needs one, even if one is named: a night may hold both kinds of settings.

    Raises:
        UsageError: setting or agent need one and none is named, or it is not known or not installed.
    """
    if not (_needs_embedder(benchmark.setting(setting)) or _agent_needs_embedder(request)):
        return None
    asked = request.embedder
    if asked is None:
        who = (
            f"agent {request.model.agent}"
            if _agent_needs_embedder(request)
            else f"{benchmark.name}.{setting}"
        )
        raise ConfigError(
            f"{who} compares texts by their vectors. Name an embedder by --embedder SPEC (`embedder` in a"
            " night's configuration): bge-m3, openai:MODEL@BASE_URL, or without a network embedded:minilm"
        )
    before = (
        resumed.embedder.revision
        if resumed and resumed.embedder and resumed.embedder.is_hosted
        else None
    )
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    fields = check_request_fields(asked.request)
    choice = parse_embedder(
        asked.spec,
        key_env=asked.key_env,
        revision=asked.revision or before,
        today=today,
        request=fields,
    )
    return replace(choice, endpoint=reached(choice.endpoint, asked))


def is_in_play(request: EvaluationRequest, setting: Setting) -> bool:
    """Whether a seat asks for vectors, so that the embedder can change what is said."""
    return setting.embedder_in_play or _agent_needs_embedder(request)


def _needs_embedder(setting: Setting) -> bool:
    return setting.needs_embedder or setting.embedder_in_play


def _agent_needs_embedder(request: EvaluationRequest) -> bool:
    return request.model.agent is not None and AGENTS.load(request.model.agent).needs_embedder


def refuse_needless_embedder(request: EvaluationRequest) -> None:
    """Raise ConfigError where one setting alone is asked for, which needs no embedder, and one is named."""
    if request.embedder is None or _agent_needs_embedder(request):
        return
    benchmark, setting = find_setting(request.benchmark.name)
    if not _needs_embedder(benchmark.setting(setting)):
        raise ConfigError(
            f"--embedder {request.embedder.spec}: nothing in {benchmark.name}.{setting} reads vectors. Leave it out"
        )

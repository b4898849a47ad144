"""Choice of the setting, models, judges and embedder that a request names."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from schemas.errors import ConfigError, UnknownName
from schemas.run import (
    EmbedderIdentity,
    EndpointProfile,
    ModelEndpoint,
    ModelIdentity,
    RubricJudge,
    RunSpec,
    Sampling,
)
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.setting import Setting
from tasks.dialogue.agents.registry import AGENTS
from tasks.language.access import CallPolicy, ModelAccess, OutagePolicy
from tasks.language.endpoints.named_profiles import load_profile
from tasks.language.endpoints.request_parts import check_request_fields
from tasks.language.model_spec import parse_embedder, parse_model
from tasks.language.providers.registry import PROVIDERS
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.home import Home, find_home
from tasks.storage.home_records import FileDigests

IN_BATCHES = 50_000
"""Default number of concurrent requests of a model whose requests go to batches."""


def choose(
    request: ModelRequest,
    resumed: ModelIdentity | None,
    home: Home | None = None,
    *,
    concurrency: int,
) -> ModelAccess:
    """Return the access to the model that a request names.

    Args:
        request: model and how to reach it.
        resumed: identity in the run that is resumed, whose revision is reused; None for a new run.
        home: stores digests of large files, so weights are read once, and the batches in flight.
        concurrency: number of requests in flight if the request states none.

    Raises:
        ConfigError: the model cannot be used in batches, but the request asks for them.
    """
    revision = request.revision or (resumed.revision if resumed and resumed.revision else None)
    access = parse_model(
        request.spec,
        key_env=request.key_env,
        revision=revision,
        name=request.name,
        serve=request.serve,
        digests=FileDigests(home.file_digests if home else None),
    )
    access = with_message_form(
        replace(
            access,
            endpoint=with_connection(access.endpoint, request),
            policy=policy_of(request, concurrency),
        ),
        request,
    )
    if not request.batch:
        return access
    if not PROVIDERS.load(access.identity.provider).takes_batches:
        raise ConfigError(
            f"model {request.spec!r}: only endpoints take batches (openai:MODEL[@BASE_URL]). "
            "Remove `batch`"
        )
    if home is None:
        raise ConfigError(f"model {request.spec!r}: only evaluations use batches. Remove `batch`")
    return replace(
        access, endpoint=access.endpoint.model_copy(update={"batches": str(home.batches)})
    )


def with_message_form(access: ModelAccess, request: ModelRequest) -> ModelAccess:
    """Return the model with the message form and the profile that the request names.

    Raises:
        UnknownName: no profile has this name.
        ConfigError: the model is no endpoint, or the profile cannot be read.
    """
    if request.messages == "auto" and request.profile is None:
        return access
    if PROVIDERS.load(access.identity.provider).knows_answers:
        raise ConfigError(
            f"model {access.label} is no endpoint, so --messages and --profile have no "
            "effect. Remove them (`messages` and `profile` in a file)"
        )
    profile, name = (
        load_profile(request.profile, find_home().path)
        if request.profile
        else (EndpointProfile(), "")
    )
    if request.messages != "auto":
        profile = profile.model_copy(update={"messages": request.messages})
    identity = access.identity.model_copy(update={"messages": request.messages, "profile": name})
    return replace(access, identity=identity, profile=profile)


def with_connection(endpoint: ModelEndpoint, request: ModelRequest) -> ModelEndpoint:
    """Return the endpoint with the request's headers, system text and `ca_file`."""
    update = {
        "headers": tuple(sorted(request.headers.items())),
        "ca_file": str(Path(request.ca_file).absolute()) if request.ca_file else None,
        "system_text": request.system_text,
    }
    return endpoint.model_copy(update=update)


def policy_of(request: ModelRequest, concurrency: int) -> CallPolicy:
    """Return the limits of the calls to a model.

    Args:
        request: model and how to use it.
        concurrency: number of requests in flight if the request states none and uses no batches.
    """
    return CallPolicy(
        concurrency=request.concurrency or (IN_BATCHES if request.batch else concurrency),
        timeout_s=request.timeout_s,
        check_served_model=request.check_served_model,
        outage=OutagePolicy(patience_s=request.patience_s),
    )


def find_setting(name: str) -> tuple[Benchmark, str]:
    """Return the benchmark and the name of the setting that `name` refers to.

    Args:
        name: `BENCHMARK.SETTING`, or `BENCHMARK` alone if it has only one setting.

    Raises:
        UnknownName: no benchmark or setting has this name. The message lists the known names.
        ConfigError: `name` has no setting, and the benchmark has several.
    """
    first, _, rest = name.partition(".")
    benchmark = BENCHMARKS.load(first)
    if not rest:
        if len(benchmark.settings) != 1:
            raise ConfigError(
                f"benchmark {name!r} has several settings. Name one of "
                f"{', '.join(f'{first}.{s}' for s in benchmark.settings)}"
            )
        rest = next(iter(benchmark.settings))
    benchmark.setting(rest)
    return benchmark, rest


def choose_simulator(
    request: EvaluationRequest,
    benchmark: Benchmark,
    setting: str,
    resumed: RunSpec | None,
    home: Home,
) -> ModelAccess | None:
    """Return the simulator, or None if the setting needs none.

    Its calls have the subject's time limits, because a simulator has no such options. A request
    may name a simulator that its setting does not need, because a night may have settings of both
    kinds.

    Raises:
        ConfigError: the setting needs a simulator, and the request names none.
    """
    if not benchmark.setting(setting).needs_simulator:
        return None
    if request.simulator is None:
        knows_answers = request.model.agent is None and not request.model.converses
        if knows_answers and benchmark.setting(setting).plays_known_answers_alone:
            return None
        raise ConfigError(
            f"{benchmark.name}.{setting} needs a model that simulates the user. Name it with "
            "--simulator PROVIDER:MODEL (`simulator` in a night's configuration), for example "
            f"--simulator {request.model.spec}"
        )
    before, concurrency = resumed.simulator if resumed else None, request.concurrency
    access = choose(request.simulator, before, home, concurrency=concurrency)
    return replace(access, policy=policy_of(request.model, concurrency)).limited(
        access.policy.concurrency
    )


def own_sampling(simulator: ModelRequest | None) -> Sampling | None:
    """Return the sampling that the request sets for the simulator; None if it sets none."""
    sampling = simulator.sampling if simulator else Sampling()
    return None if sampling == Sampling() else sampling


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
    access = parse_embedder(
        model.spec,
        key_env=model.key_env,
        revision=model.revision or earlier_revision,
        request=check_request_fields(model.request),
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


@dataclass(frozen=True)
class PlannedModel:
    """Model in one role of a run or build, with the access to it and its request."""

    role: str
    """In a run: `subject`, `simulator` or `judge`."""
    access: ModelAccess
    request: ModelRequest

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model."""
        return self.access.identity


@dataclass(frozen=True)
class PlannedJudge(PlannedModel):
    """Judge of one rubric."""

    judge: RubricJudge


def choose_judges(
    request: EvaluationRequest,
    benchmark: Benchmark,
    setting: str,
    resumed: RunSpec | None,
    home: Home | None = None,
) -> Mapping[str, PlannedJudge]:
    """Map each rubric of the setting to its judge.

    A request may name a judge for a setting without rubrics, because a night may have settings of
    both kinds.

    Raises:
        ConfigError: a rubric has no judge.
        UnknownName: the setting has rubrics, and the request names a judge for another rubric.
    """
    rubrics = benchmark.rubrics(setting)
    names = tuple(rubric.name for rubric in rubrics)
    unknown = [name for name in request.judges if name and name not in names]
    if rubrics and unknown:
        raise UnknownName("rubric", unknown[0], names, of=f"{benchmark.name}.{setting}")
    before = {judge.rubric: judge.judge for judge in resumed.judges} if resumed else {}
    chosen = {}
    for rubric in rubrics:
        model = request.judges.get(rubric.name, request.judges.get(""))
        if model is None:
            raise ConfigError(
                f"{benchmark.name}.{setting} has the rubric {rubric.name!r}. Name its judge with "
                f"--judge PROVIDER:MODEL or --judge {rubric.name}=PROVIDER:MODEL (`judge` or "
                "`judges` in a night's configuration)"
            )
        access = choose(model, before.get(rubric.name), home, concurrency=request.concurrency)
        judge = RubricJudge(
            rubric=rubric.name,
            version=rubric.version,
            prompt=rubric.digest,
            judge=access.identity,
            sampling=model.sampling,
        )
        chosen[rubric.name] = PlannedJudge("judge", access, model, judge)
    return chosen


def refuse_needless_judges(request: EvaluationRequest) -> None:
    """Refuse a judge if the setting has no rubric: whoever names a judge expects judgements.

    Raises:
        ConfigError: the request names a judge, and the setting has no rubric.
    """
    if not request.judges:
        return
    benchmark, setting = find_setting(request.benchmark.name)
    if not benchmark.rubrics(setting):
        judged = [name for name in benchmark.settings if benchmark.rubrics(name)]
        others = (
            f". Settings with rubrics: {', '.join(f'{benchmark.name}.{name}' for name in judged)}"
            if judged
            else ""
        )
        raise ConfigError(
            f"{benchmark.name}.{setting} has no rubrics, so --judge has no effect. "
            f"Remove it{others}"
        )

"""Choice of the setting and the models that a request names."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from schemas.endpoint_profile import EndpointProfile
from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity, RunSpec, Sampling
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import BENCHMARKS
from tasks.language.access import CallPolicy, ModelAccess, OutagePolicy
from tasks.language.endpoints.named_profiles import load_profile
from tasks.language.model_spec import parse_model
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
        today=datetime.now(UTC).strftime("%Y-%m-%d"),
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

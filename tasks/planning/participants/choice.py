"""Choice of the setting and the models that a request names."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from schemas.endpoint_profile import EndpointProfile
from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity, RunSpec, Sampling
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import BENCHMARKS
from tasks.language.endpoints.named_profiles import load_profile
from tasks.language.model_spec import ModelChoice, parse_model
from tasks.language.providers.registry import PROVIDERS
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.home import Home, find_home
from tasks.storage.home_records import FileDigests


def choose(
    request: ModelRequest, resumed: ModelIdentity | None, home: Home | None = None
) -> ModelChoice:
    """Return the identity and endpoint of the model that a request names.

    Args:
        request: model and how to reach it.
        resumed: identity in the run that is resumed, whose revision is reused; None for a new run.
        home: stores digests of large files, so weights are read once, and the batches in flight.

    Raises:
        ConfigError: the model cannot be used in batches, but the request asks for them.
    """
    revision = request.revision or (resumed.revision if resumed and resumed.revision else None)
    choice = parse_model(
        request.spec,
        key_env=request.key_env,
        revision=revision,
        today=datetime.now(UTC).strftime("%Y-%m-%d"),
        name=request.name,
        serve=request.serve,
        digests=FileDigests(home.file_digests if home else None),
    )
    choice = with_message_form(
        replace(choice, endpoint=with_connection(choice.endpoint, request)), request
    )
    if not request.batch:
        return choice
    if not PROVIDERS.load(choice.identity.provider).takes_batches:
        raise ConfigError(
            f"model {request.spec!r}: only endpoints take batches (openai:MODEL[@BASE_URL]). "
            "Remove `batch`"
        )
    if home is None:
        raise ConfigError(f"model {request.spec!r}: only evaluations use batches. Remove `batch`")
    return replace(
        choice, endpoint=choice.endpoint.model_copy(update={"batches": str(home.batches)})
    )


def with_message_form(choice: ModelChoice, request: ModelRequest) -> ModelChoice:
    """Return the model with the message form and the profile that the request names.

    Raises:
        UnknownName: no profile has this name.
        ConfigError: the model is no endpoint, or the profile cannot be read.
    """
    if request.messages == "auto" and request.profile is None:
        return choice
    if PROVIDERS.load(choice.identity.provider).knows_answers:
        raise ConfigError(
            f"model {choice.identity.label} is no endpoint, so --messages and --profile have no "
            "effect. Remove them (`messages` and `profile` in a file)"
        )
    profile, name = (
        load_profile(request.profile, find_home().path)
        if request.profile
        else (EndpointProfile(), "")
    )
    if request.messages != "auto":
        profile = profile.model_copy(update={"messages": request.messages})
    return ModelChoice(
        identity=choice.identity.model_copy(update={"messages": request.messages, "profile": name}),
        endpoint=choice.endpoint.model_copy(update={"profile": profile}),
    )


def with_connection(endpoint: ModelEndpoint, request: ModelRequest) -> ModelEndpoint:
    """Return the endpoint with the request's headers, system text and `ca_file`."""
    update = {
        "headers": tuple(sorted(request.headers.items())),
        "ca_file": str(Path(request.ca_file).absolute()) if request.ca_file else None,
        "system_text": request.system_text,
    }
    return endpoint.model_copy(update=update)


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
) -> ModelChoice | None:
    """Return the simulator, or None if the setting needs none.

    A request may name a simulator that its setting does not need, because a night may have settings
    of both kinds.

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
    return choose(request.simulator, resumed.simulator if resumed else None, home)


def own_sampling(simulator: ModelRequest | None) -> Sampling | None:
    """Return the sampling that the request sets for the simulator; None if it sets none."""
    sampling = simulator.sampling if simulator else Sampling()
    return None if sampling == Sampling() else sampling

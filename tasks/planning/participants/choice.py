"""Finds the setting and the models that a request names."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from schemas.endpoint_profile import EndpointProfile
from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import BENCHMARKS
from tasks.language.endpoints.named_profiles import load_profile
from tasks.language.model_spec import ModelChoice, parse_model
from tasks.language.providers.registry import PROVIDERS
from tasks.planning.request import ModelRequest
from tasks.storage.file_digests import FileDigests
from tasks.storage.home import Home, find_home


def choose(
    request: ModelRequest, resumed: ModelIdentity | None, home: Home | None = None
) -> ModelChoice:
    """Who is asked for, and where. A run that is resumed keeps the revision that it was begun with.

    Args:
        home: keeps the digests of large files, so that weights are read once, and what batches are under way.
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
    choice = in_form(replace(choice, endpoint=reached(choice.endpoint, request)), request)
    if not request.batch:
        return choice
    if not PROVIDERS.load(choice.identity.provider).takes_batches:
        raise ConfigError(
            f"model {request.spec!r}: batches are for models behind an endpoint: openai:MODEL[@BASE_URL]"
        )
    if home is None:
        raise ConfigError(f"model {request.spec!r}: batches are for evaluations; leave out `batch`")
    return replace(
        choice, endpoint=choice.endpoint.model_copy(update={"batches": str(home.batches)})
    )


def in_form(choice: ModelChoice, request: ModelRequest) -> ModelChoice:
    """Return the model, asked in the form that the request names: its requests then begin with that profile.

    Raises:
        UnknownName: no such profile.
        ConfigError: the model is no endpoint, or the profile cannot be read.
    """
    if request.messages == "auto" and request.profile is None:
        return choice
    if PROVIDERS.load(choice.identity.provider).knows_answers:
        raise ConfigError(
            f"model {choice.identity.label}: it is no endpoint; leave --messages and --profile out (`messages` and `profile` in a"
            " file)"
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


def reached(endpoint: ModelEndpoint, request: ModelRequest) -> ModelEndpoint:
    """Return the endpoint with the request's headers, system text, and authorities to trust (`ca_file`)."""
    update = {
        "headers": tuple(sorted(request.headers.items())),
        "ca_file": str(Path(request.ca_file).absolute()) if request.ca_file else None,
        "system_text": request.system_text,
    }
    return endpoint.model_copy(update=update)


def find_setting(name: str) -> tuple[Benchmark, str]:
    """`benchmark.setting`, or the benchmark alone where it has one setting.

    Raises:
        UnknownName: lists the known names.
    """
    first, _, rest = name.partition(".")
    benchmark = BENCHMARKS.load(first)
    if not rest:
        if len(benchmark.settings) != 1:
            raise ConfigError(
                f"benchmark {name!r} has several settings: name one of {', '.join(f'{first}.{s}' for s in benchmark.settings)}"
            )
        rest = next(iter(benchmark.settings))
    benchmark.setting(rest)
    return benchmark, rest

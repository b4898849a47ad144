"""Access to the model that a role's request names."""

from dataclasses import dataclass, replace
from pathlib import Path

from schemas.errors import ConfigError
from schemas.run import EndpointProfile, ModelEndpoint, ModelIdentity, RubricJudge
from tasks.language.access import CallPolicy, ModelAccess, OutagePolicy
from tasks.language.endpoints.wire import load_profile
from tasks.language.model_spec import parse_model
from tasks.language.providers.registry import PROVIDERS
from tasks.planning.request import ModelRequest
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

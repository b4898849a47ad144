"""Requests of a command or a configuration: one evaluation, or the build of one dataset."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from sandbox.registry import default_name
from schemas.audit import AuditMode
from schemas.base import Frozen
from schemas.content_id import text_digest
from schemas.errors import ConfigError
from schemas.night.decision import THRESHOLD, DecisionRule
from schemas.outside.display import plain_line
from schemas.run import MessageForm, Sampling
from tasks.benchmarks.registry import resolve_name
from tasks.language.endpoints.answer_text import tag_names
from tasks.language.endpoints.request_parts import check_headers, check_request_fields
from tasks.language.prompt import read_system_text
from tasks.language.providers.contract import ModelProvider, file_name
from tasks.language.providers.registry import provider_of
from tasks.language.servers.vllm_settings import VllmSettings


class ModelRequest(Frozen):
    """Model of one role, and how to reach and use it.

    Keys are named by their environment variable, and never stored.
    """

    spec: str
    """Model: `embedded:smollm2`, `openai:MODEL[@BASE_URL]`, `vllm:PATH_OR_REPO`, `recorded:FILE`,
    `control:gold` or `control:empty`."""
    key_env: str | None = None
    """Name of the environment variable that holds the endpoint's key."""
    revision: str | None = None
    """Name of the weights that an endpoint serves. Without it, a hosted model counts as another
    model each day (UTC)."""
    ca_file: str | None = None
    """PEM file of certificate authorities to trust beside the default ones."""
    name: str | None = None
    """Name that tables show for weights or a recording on disk. Default: the folder's or file's."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["default"] = 0.0
    """Sampling temperature. `default`: no temperature is sent, so the endpoint's default
    applies."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: tuple[str, ...] = ()
    omit_reasoning: bool = True
    reasoning_tags: str = "auto"
    """Tags around thoughts in an answer's text: `auto` for all that Parley knows, `none`, or names
    separated by commas."""
    request: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Further fields of each request's body, such as `reasoning_effort`, with any JSON values. Part
    of the run's id."""
    system_prompt: str | None = None
    """File with a text that precedes the benchmark's own system text, separated by an empty line.
    The run's id contains its digest."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Extra headers of each request: maps a header to the environment variable that holds its
    value. They are not part of the run's id."""
    messages: MessageForm = "auto"
    """Form of the messages: `native`, `merged` (no system role, no two messages of one role in a
    row), or `auto`: native until the endpoint refuses it. A form other than `auto` is part of the
    run's id."""
    profile: str | None = None
    """Profile of the endpoint: the form of requests that it accepts, as a name or a file's path.

    The file is YAML. The profile is part of the run's id. Default: Parley learns the profile from
    the endpoint's refusals.
    """
    tools_as_text: bool = False
    """Describe an agent's tools in the text of messages, even if the endpoint has its own format
    for tools."""
    agent: str | None = None
    """Agent that acts as the subject instead of the bare model; see `parley list agents`."""
    agent_options: dict[str, str] = Field(default_factory=dict)
    batch: bool = False
    """Send the requests to the endpoint's batch API (`/v1/batches`): an answer takes up to a day
    and costs half. It is not part of the run's id."""
    check_served_model: bool = True
    timeout_s: float = Field(default=300.0, gt=0)
    """Time limit of one answer in seconds."""
    patience_s: float = Field(default=300.0, ge=0)
    """Seconds for which requests wait while the endpoint does not answer. Then they fail."""
    concurrency: int | None = Field(default=None, ge=1)
    """Number of requests in flight to this endpoint. Default: the night's `concurrency`."""
    usd_per_million_input: float | None = Field(default=None, ge=0)
    usd_per_million_output: float | None = Field(default=None, ge=0)
    usd_per_hour: float | None = Field(default=None, ge=0)
    """Price in USD per hour of the server that Parley starts for the model (`vllm:`, `embedded:`),
    all replicas included."""
    gpus: float | None = Field(default=None, ge=0)
    """Number of GPUs of the server that Parley starts, all replicas included. The default of
    `embedded:` is 0."""
    serve: VllmSettings | None = None
    """Settings of vLLM for a `vllm:` model."""
    family: str | None = None
    """Name that the successive checkpoints of one model share: each is compared with its
    predecessor. Default: the model's label."""

    @property
    def label(self) -> str:
        """Provider, model and agent as tables name them, without URL, folders or agent options."""
        name, _, rest = self.spec.partition(":")
        shown = self.name or (self._provider.shown_name if self._provider else file_name)(rest)
        return f"{name}:{shown}" + (f"+{self.agent}" if self.agent else "")

    @property
    def _provider(self) -> ModelProvider | None:
        return provider_of(self.spec)

    @property
    def is_served_here(self) -> bool:
        """True if Parley starts the model's server."""
        return self._provider is not None and self._provider.serve is not None

    @property
    def converses(self) -> bool:
        """True if a model answers. False for controls and recordings, whose answers are fixed."""
        return self._provider is None or not self._provider.knows_answers

    @property
    def n_gpus(self) -> float | None:
        """Number of GPUs of the model's server; None if unknown, or if Parley does not start it."""
        return self._provider.usual_gpus if self.gpus is None and self._provider else self.gpus

    @property
    def sampling(self) -> Sampling:
        """Sampling of the model's tokens.

        Raises:
            UsageError: `system_text` cannot be read.
        """
        return Sampling(
            temperature=None if self.temperature == "default" else self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            stop=self.stop,
            omit_reasoning=self.omit_reasoning,
            tools_as_text=self.tools_as_text,
            reasoning_tags=self.reasoning_tags,
            request=check_request_fields(self.request),
            system_prompt=text_digest(self.system_text) if self.system_prompt else "",
        )

    @property
    def system_text(self) -> str:
        """Text of the file `system_prompt`; empty if none is set.

        Raises:
            UsageError: the file cannot be read, or contains no text.
        """
        return read_system_text(Path(self.system_prompt)) if self.system_prompt else ""

    def trusting(self, ca_file: str) -> Self:
        """Return the request with the certificate authorities of `ca_file`."""
        return self.model_copy(update={"ca_file": ca_file})

    @model_validator(mode="after")
    def _require_valid(self) -> Self:
        provider = self._provider
        if not (self.is_served_here or self.usd_per_hour is self.gpus is None):
            raise ConfigError(
                "usd_per_hour and gpus are for models whose server Parley starts (vllm:, "
                f"embedded:), not for {self.spec}. Set usd_per_million_input and "
                "usd_per_million_output instead, or remove them"
            )
        try:
            check_request_fields(self.request)
            check_headers(self.headers)
        except ConfigError as error:
            raise ConfigError(f"model {plain_line(self.label)!r}: {error}") from None
        if self.headers and not (provider and provider.check):
            raise ConfigError(
                f"model {plain_line(self.label)!r}: only endpoints (openai:) take headers. "
                "Remove them"
            )
        if self.reasoning_tags != "auto":  # the default needs no file of tags
            tag_names(self.reasoning_tags)
        if self.serve is not None and not (provider and provider.takes_serve_settings):
            raise ConfigError(
                f"model {plain_line(self.spec)!r}: only models that Parley serves with vLLM "
                "(vllm:PATH_OR_REPO) take `serve`. Remove it"
            )
        if self.key_env is not None and not self.key_env.isidentifier():
            raise ConfigError(
                "key_env is not the name of a variable (and is not shown, in case it is the key "
                "itself). Put the key into an environment variable, and name the variable here"
            )
        if "://" in self.spec and "@" in self.spec.split("://", 1)[1].split("/")[0]:
            raise ConfigError(
                "a model spec has a user or key in its URL. Put the key into an environment "
                "variable, and name the variable with key_env"
            )
        return self


class ComparisonRequest(Frozen):
    """Comparison of runs with each other. It is not part of a run's id."""

    baseline: str | None = None
    """Baseline that every run is compared with: a model's label, the label's last part, a family
    (each also with `@REVISION`), or a run."""
    threshold: float = Field(default=THRESHOLD, ge=0)
    """Smallest statistically significant loss that counts as a regression, in the metric's own
    unit."""
    thresholds: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Metric -> its own threshold, in place of `threshold`."""


class Subsample(Frozen):
    """Share of a dataset's problems: the first problems in an order that depends on the seed."""

    share: float = Field(gt=0, le=1)
    seed: int = 0


class BenchmarkRequest(Frozen):
    """Setting of a benchmark, on one version of its data."""

    name: str
    """Setting: `BENCHMARK.SETTING`, or `BENCHMARK` if it has only one setting. For a benchmark in a
    file, `path/to/bench.py` or `path/to/bench.py:SETTING`."""
    data: str | None = None
    """File or folder of raw data. Default: staged data, or the bundled sample."""
    dataset_version: str | None = None
    options: dict[str, str] = Field(default_factory=dict)
    resources: dict[str, str] = Field(default_factory=dict)
    """Resources that the data needs, such as repositories: maps the name of each resource to its
    file, folder or name. Ids contain their content, but no path."""
    templates: str | None = None
    """Folder with templates that replace the benchmark's questions and judge prompts. The run's
    id contains their digests, but not the folder."""
    limit: int | None = Field(default=None, ge=1)
    """Play only the dialogues of the first N problems. N is not part of the run's id."""
    subsample: Subsample | None = None
    """Play only a share of these problems. It is not part of the run's id."""
    skip_missing_packages: bool = False
    """Leave out problems whose programs import packages that are not installed. It is not part
    of the run's id."""
    samples: int = Field(default=1, ge=1)
    seed: int = 0

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        return resolve_name(name)


class EvaluationRequest(Frozen):
    """Request for one evaluation.

    It is a parameter of a Prefect flow, which Prefect's pages show, so it contains no keys.
    """

    model: ModelRequest
    benchmark: BenchmarkRequest
    simulator: ModelRequest | None = None
    judges: dict[str, ModelRequest] = Field(default_factory=dict)
    """Judges by rubric. The judge with the empty name is for all other rubrics."""
    embedder: ModelRequest | None = None
    """Embedder. Its spec is `bge-m3[@FOLDER]`, `embedded:minilm` or `openai:MODEL[@BASE_URL]`. Its
    sampling has no effect."""
    refused: Literal["failed", "unscored"] = "failed"
    """Result of the tests if the endpoint refused the prompt, so there is no answer."""
    sandbox: str = Field(default_factory=default_name)
    concurrency: int = Field(default=64, ge=1)
    workers: int = Field(default=2, ge=1)
    max_fault_share: float = Field(default=0.01, ge=0, le=1)
    audit: AuditMode = "sample"
    """Passed tests to audit, if the setting runs programs."""
    max_forged_share: float = Field(default=0.01, ge=0, le=1)
    comparison: ComparisonRequest | None = None
    """Comparison of the run with others. None keeps the comparison of an earlier request."""
    decide: DecisionRule | None = None
    """Stop once the comparison with a baseline is decided. None: play all wanted episodes. It is
    not part of the run's id."""
    fsync: bool = False
    """Flush journal and Parquet files to the disk at each write: slower, but safe against a power
    failure."""
    resume: str | None = None
    """Id of the run to resume. An error if the request describes another run."""

    @property
    def title(self) -> str:
        """Setting and model in one line."""
        return f"{self.benchmark.name} · {self.model.label}"

    @property
    def models(self) -> tuple[ModelRequest, ...]:
        """Models of all roles."""
        return tuple(
            model
            for model in (self.model, self.simulator, self.embedder, *self.judges.values())
            if model is not None
        )

    def trusting(self, ca_file: str) -> Self:
        """Return the request with the certificate authorities of `ca_file` for every model."""
        update: dict[str, Any] = {
            "judges": {name: judge.trusting(ca_file) for name, judge in self.judges.items()}
        }
        for role in ("model", "simulator", "embedder"):
            model: ModelRequest | None = getattr(self, role)
            update[role] = model and model.trusting(ca_file)
        return self.model_copy(update=update)

    @model_validator(mode="after")
    def _agent_is_under_test(self) -> Self:
        for model in self.models:
            if model.agent is not None and model is not self.model:
                raise ConfigError(
                    f"agent {model.agent!r}: an agent can only replace the model under test, not "
                    f"{model.spec}"
                )
        return self


class BuildRequest(Frozen):
    """Request for a dataset that model calls and programs build.

    It is a parameter of a Prefect flow, which Prefect's pages show, so it contains no keys.
    """

    what: str
    """Build: `BENCHMARK-CONSTRUCTION`, see `parley list builds`."""
    roles: dict[str, ModelRequest]
    """Models by role. The construction sets each role's sampling."""
    data: str | None = None
    """File or folder of raw data. Default: staged data, or the bundled sample."""
    dataset_version: str | None = None
    options: dict[str, str] = Field(default_factory=dict)
    limit: int | None = Field(default=None, ge=1)
    """Use only the first N problems."""
    resources: dict[str, str] = Field(default_factory=dict)
    """Resources that the data needs, as in `BenchmarkRequest.resources`."""
    embedder: ModelRequest | None = None
    sandbox: str = Field(default_factory=default_name)
    concurrency: int = Field(default=64, ge=1)
    out: str = ""
    """Folder of the new files; empty if none are written."""
    replace: bool = False
    """Replace the files of another build in `out`."""

    @property
    def models(self) -> tuple[ModelRequest, ...]:
        """Models of all roles."""
        return (*self.roles.values(), *([self.embedder] if self.embedder else []))


def key_names(requests: Sequence[EvaluationRequest | BuildRequest]) -> tuple[str, ...]:
    """Return the names of the environment variables with these models' keys and headers.

    Workers get no other variables that contain keys.
    """
    models = [model for request in requests for model in request.models]
    names = {model.key_env for model in models if model.key_env}
    names |= {name for model in models for name in model.headers.values()}
    for model in models:
        provider = provider_of(model.spec)
        usual = provider.usual_key(model.spec.partition(":")[2]) if provider else None
        if usual and not model.key_env:
            names.add(usual)
    return tuple(sorted(names))

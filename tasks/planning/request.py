"""Requests of a person or a configuration: one model on one setting of one benchmark, or one dataset to be made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from sandbox.registry import default_name
from schemas.audit import AuditMode
from schemas.base import Frozen
from schemas.content_id import text_digest
from schemas.endpoint_profile import MessageForm
from schemas.errors import ConfigError
from schemas.night.comparison import THRESHOLD
from schemas.night.decision import DecisionRule
from schemas.outside.display import plain_line
from schemas.run import Sampling
from tasks.benchmarks.registry import resolve_name
from tasks.language.endpoints.extra_headers import check_headers
from tasks.language.endpoints.reasoning import tag_names
from tasks.language.endpoints.request_fields import check_request_fields
from tasks.language.providers.contract import file_name
from tasks.language.providers.registry import provider_of
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.language.system_text import read_system_text


class ModelRequest(Frozen):
    """A model and how to reach and use it. Keys are named by their variable, never held."""

    spec: str
    """`embedded:smollm2`, `openai:MODEL[@BASE_URL]`, `vllm:PATH_OR_REPO`, `recorded:FILE`, `control:gold`, `control:empty`."""
    key_env: str | None = None
    """Name of the environment variable that holds the endpoint's key."""
    revision: str | None = None
    """Which weights an endpoint serves; without it a hosted model counts as another model each day (UTC)."""
    ca_file: str | None = None
    """PEM file of authorities whose certificates the endpoint may have, beside the usual ones."""
    name: str | None = None
    """Name in tables of weights or a recording on disk; without it that of the folder or file."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["default"] = 0.0
    """`default` sends none: the endpoint's own counts."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: tuple[str, ...] = ()
    omit_reasoning: bool = True
    reasoning_tags: str = "auto"
    """Marks of thoughts in the text of an answer: `auto`, `none`, or names separated by commas."""
    request: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Further fields of each request's body, such as `reasoning_effort`: any JSON values. Part of the run's id."""
    system_prompt: str | None = None
    """File of a text that stands before the benchmark's own system text, an empty line between them. Its digest is in the id."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Header -> name of the environment variable that holds its value. In no id."""
    messages: MessageForm = "auto"
    """Form of the messages: `native`, `merged` (no system role, no two of one role in a row), or `auto` to find it out. One that
    is named is part of the run's id."""
    profile: str | None = None
    """What the endpoint takes, known before the first request: the name of a profile, or the path of its YAML file. Part of the
    run's id. Without it Parley finds it out."""
    tools_as_text: bool = False
    """Tell of an agent's tools within the messages, even where the endpoint has a format of its own for them."""
    agent: str | None = None
    """Who sits in the subject's seat instead of the bare model; see `parley list agents`."""
    agent_options: dict[str, str] = Field(default_factory=dict)
    batch: bool = False
    """Send its requests to the endpoint's batches (`/v1/batches`): an answer takes up to a day and costs half. In no id."""
    check_served_model: bool = True
    timeout_s: float = Field(default=300.0, gt=0)
    """Limit of one answer, in seconds."""
    patience_s: float = Field(default=300.0, ge=0)
    """How long all requests wait together for an endpoint that stopped answering, seconds."""
    concurrency: int | None = Field(default=None, ge=1)
    """Requests in flight to this endpoint; without it the night's `concurrency`."""
    usd_per_million_input: float | None = Field(default=None, ge=0)
    usd_per_million_output: float | None = Field(default=None, ge=0)
    usd_per_hour: float | None = Field(default=None, ge=0)
    """What an hour of its server costs, all replicas together, where Parley starts it (`vllm:`, `embedded:`)."""
    gpus: float | None = Field(default=None, ge=0)
    """GPUs that this server holds, all replicas together; `embedded:` holds none unless told otherwise."""
    serve: VllmSettings | None = None
    """How vLLM serves it, of a `vllm:` model."""
    family: str | None = None
    """Checkpoints of one family are compared with their predecessors; without it the model's label."""

    @property
    def label(self) -> str:
        """Provider and model as tables name them: without the endpoint's URL, a path's folders and the agent's options."""
        provider, _, rest = self.spec.partition(":")
        kind = provider_of(self.spec)
        shown = self.name or (kind.shown_name if kind else file_name)(rest)
        return f"{provider}:{shown}" + (f"+{self.agent}" if self.agent else "")

    @property
    def is_served_here(self) -> bool:
        """Whether Parley starts its server."""
        provider = provider_of(self.spec)
        return provider is not None and provider.serve is not None

    @property
    def converses(self) -> bool:
        """Whether its answers come of a talk: a control and a recording know theirs before."""
        provider = provider_of(self.spec)
        return provider is None or not provider.knows_answers

    @property
    def n_gpus(self) -> float | None:
        """GPUs that its server holds; None where nobody said, or where the server is not ours."""
        provider = provider_of(self.spec)
        return provider.usual_gpus if self.gpus is None and provider else self.gpus

    @property
    def sampling(self) -> Sampling:
        """Its settings that decide how tokens are drawn.

        Raises:
            UsageError: as `system_text`.
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
        """The text in its file `system_prompt`; empty without one.

        Raises:
            UsageError: the file cannot be read, or holds no text.
        """
        return read_system_text(Path(self.system_prompt)) if self.system_prompt else ""

    def trusting(self, ca_file: str) -> Self:
        """The same model, whose certificate may be of an authority in `ca_file`."""
        return self.model_copy(update={"ca_file": ca_file})

    @model_validator(mode="after")
    def _costs_by_the_hour(self) -> Self:
        if self.is_served_here or self.usd_per_hour is self.gpus is None:
            return self
        raise ConfigError(
            f"usd_per_hour and gpus are those of a server that Parley starts, and {self.spec} is none (vllm:, embedded:). State"
            " usd_per_million_input and usd_per_million_output, or leave them out"
        )

    @model_validator(mode="after")
    def _has_sendable_extras(self) -> Self:
        try:
            check_request_fields(self.request)
            check_headers(self.headers)
        except ConfigError as error:
            raise ConfigError(f"model {plain_line(self.label)!r}: {error}") from None
        if self.headers and not ((provider := provider_of(self.spec)) and provider.check):
            raise ConfigError(
                f"model {plain_line(self.label)!r}: headers are for endpoints (openai:); leave them out"
            )
        return self

    @model_validator(mode="after")
    def _has_known_reasoning_tags(self) -> Self:
        if self.reasoning_tags != "auto":  # the default needs no file of marks
            tag_names(self.reasoning_tags)
        return self

    @model_validator(mode="after")
    def _is_served_by_us(self) -> Self:
        provider = provider_of(self.spec)
        if self.serve is not None and not (provider and provider.takes_serve_settings):
            raise ConfigError(
                f"model {plain_line(self.spec)!r}: `serve` is for models that Parley serves by vLLM: vllm:PATH_OR_REPO"
            )
        return self

    @model_validator(mode="after")
    def _no_key_in_spec(self) -> Self:
        if self.key_env is not None and not self.key_env.isidentifier():
            raise ConfigError(
                "key_env is not the name of a variable (and is not shown, in case it is the key itself). Put the key into a"
                " variable, and its name here"
            )
        if "://" in self.spec and "@" in self.spec.split("://", 1)[1].split("/")[0]:
            raise ConfigError(
                "a model spec holds user or key in its URL. Put the key into a variable and name it by key_env"
            )
        return self


class ComparisonRequest(Frozen):
    """How runs are compared with each other. In no id."""

    baseline: str | None = None
    """A model's label, its last part, a family (each also with `@REVISION`) or a run: every run is compared with it."""
    threshold: float = Field(default=THRESHOLD, ge=0)
    """Least significant loss that is a regression, in the metric's own unit."""
    thresholds: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Metric -> its own threshold."""


class Subsample(Frozen):
    """A fixed share of a dataset's problems: the first of them in an order that the seed alone decides."""

    share: float = Field(gt=0, le=1)
    seed: int = 0


class BenchmarkRequest(Frozen):
    """A setting of a benchmark on one version of its data."""

    name: str
    """A benchmark, `.` and a setting of it; where it has one setting, its name alone will do. Or a benchmark's file:
    `path/to/bench.py`, or `path/to/bench.py:SETTING`."""
    data: str | None = None
    """File or folder of raw data; without it what was staged before, or the bundled sample."""
    dataset_version: str | None = None
    options: dict[str, str] = Field(default_factory=dict)
    resources: dict[str, str] = Field(default_factory=dict)
    """Name -> file or folder that the data need beside them, such as repositories, or a name of such things. In no id; what
    lies there is."""
    templates: str | None = None
    """Folder of the user's own texts of questions and judge prompts. Their digests are in the run's id, its place is not."""
    limit: int | None = Field(default=None, ge=1)
    """The dialogues of the first N problems only."""
    subsample: Subsample | None = None
    """Of these problems, a share only. In no id, as `limit`."""
    skip_missing_packages: bool = False
    """Leave problems out whose programs import packages that are not installed. In no id, as `limit`."""
    samples: int = Field(default=1, ge=1)
    seed: int = 0

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        return resolve_name(name)


class EvaluationRequest(Frozen):
    """One evaluation. Safe to show: it is a Prefect parameter."""

    model: ModelRequest
    benchmark: BenchmarkRequest
    simulator: ModelRequest | None = None
    judges: dict[str, ModelRequest] = Field(default_factory=dict)
    """Rubric -> who judges by it; the empty name is for all that are not named."""
    embedder: ModelRequest | None = None
    """Its spec is `bge-m3[@FOLDER]`, `embedded:minilm` or `openai:MODEL[@BASE_URL]`. How tokens are drawn does not matter."""
    refused: Literal["failed", "unscored"] = "failed"
    """What the tests of an answer count as, where the prompt was refused."""
    sandbox: str = Field(default_factory=default_name)
    concurrency: int = Field(default=64, ge=1)
    workers: int = Field(default=2, ge=1)
    max_fault_share: float = Field(default=0.01, ge=0, le=1)
    audit: AuditMode = "sample"
    """Passes that are audited, where the setting runs programs."""
    max_forged_share: float = Field(default=0.01, ge=0, le=1)
    comparison: ComparisonRequest | None = None
    """None: as stated before, if ever."""
    decide: DecisionRule | None = None
    """Stop asking once the comparison with a baseline is decided. In no id. None asks all that is wanted."""
    fsync: bool = False
    """Flush journal and Parquet to the disk at each write: safe against loss of power, slower."""
    resume: str | None = None
    """Id of the run to go on with. Refused where the request describes another run."""

    @property
    def title(self) -> str:
        """Benchmark and model in one line."""
        return f"{self.benchmark.name} · {self.model.label}"

    @property
    def models(self) -> tuple[ModelRequest, ...]:
        """Every model that takes part."""
        return tuple(
            model
            for model in (self.model, self.simulator, self.embedder, *self.judges.values())
            if model is not None
        )

    def trusting(self, ca_file: str) -> Self:
        """The same request, where every model's certificate may be of an authority in `ca_file`."""
        update: dict[str, Any] = {
            "judges": {name: one.trusting(ca_file) for name, one in self.judges.items()}
        }
        for role in ("model", "simulator", "embedder"):
            asked: ModelRequest | None = getattr(self, role)
            update[role] = asked and asked.trusting(ca_file)
        return self.model_copy(update=update)

    @model_validator(mode="after")
    def _agent_is_under_test(self) -> Self:
        for model in self.models:
            if model.agent is not None and model is not self.model:
                raise ConfigError(
                    f"agent {model.agent!r}: an agent takes the seat of a model under test, not of {model.spec}"
                )
        return self


class BuildRequest(Frozen):
    """A dataset to be made by model calls and programs. Safe to show: it is a Prefect parameter."""

    what: str
    """A benchmark, `-` and the name of one of its constructions."""
    roles: dict[str, ModelRequest]
    """Role -> its model. The role says how tokens are drawn."""
    data: str | None = None
    """File or folder of raw data; without it what was staged before, or the bundled sample."""
    dataset_version: str | None = None
    options: dict[str, str] = Field(default_factory=dict)
    limit: int | None = Field(default=None, ge=1)
    """The first N problems only."""
    resources: dict[str, str] = Field(default_factory=dict)
    """As of `BenchmarkRequest`."""
    embedder: ModelRequest | None = None
    sandbox: str = Field(default_factory=default_name)
    concurrency: int = Field(default=64, ge=1)
    out: str = ""
    """The folder to make; empty where nothing is written."""
    replace: bool = False
    """Put the new files in the place of another build's."""

    @property
    def models(self) -> tuple[ModelRequest, ...]:
        """Every model that takes part."""
        return (*self.roles.values(), *([self.embedder] if self.embedder else []))


def key_names(requests: Sequence[EvaluationRequest | BuildRequest]) -> tuple[str, ...]:
    """Names of the variables that hold these models' keys and headers: the only ones of their kind that workers are given."""
    models = [model for request in requests for model in request.models]
    named = {m.key_env for m in models if m.key_env} | {
        name for m in models for name in m.headers.values()
    }
    for model in models:
        provider = provider_of(model.spec)
        if (
            provider is not None
            and not model.key_env
            and (key := provider.usual_key(model.spec.partition(":")[2]))
        ):
            named.add(key)
    return tuple(sorted(named))

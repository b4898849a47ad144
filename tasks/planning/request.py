"""Requests of a person or a configuration: one model on one setting of one benchmark."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import PurePath
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from sandbox.registry import default_name
from schemas.base import Frozen
from schemas.display import plain_line
from schemas.errors import ConfigError
from schemas.run import Sampling
from schemas.secret_names import looks_secret
from tasks.language.endpoint_key import OPENAI_KEY_VARIABLE, OPENAI_URL


class ModelRequest(Frozen):
    """A model and how to reach and use it. Keys are named by their variable, never held."""

    spec: str
    """`embedded:smollm2`, `openai:MODEL[@BASE_URL]`, `vllm:PATH_OR_REPO`, `recorded:FILE`, `control:gold`, `control:empty`."""
    key_env: str | None = None
    """Name of the environment variable that holds the endpoint's key."""
    revision: str | None = None
    """Which weights an endpoint serves; without it a hosted model counts as another model each day (UTC)."""
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: tuple[str, ...] = ()
    omit_reasoning: bool = True
    check_served_model: bool = True
    timeout_s: float = Field(default=300.0, gt=0)
    """Limit of one answer, in seconds."""
    patience_s: float = Field(default=300.0, ge=0)
    """How long all requests wait together for an endpoint that stopped answering, seconds."""
    concurrency: int | None = Field(default=None, ge=1)
    """Requests in flight to this endpoint; without it the night's `concurrency`."""
    usd_per_million_input: float | None = Field(default=None, ge=0)
    usd_per_million_output: float | None = Field(default=None, ge=0)

    @property
    def sampling(self) -> Sampling:
        """Its settings that decide how tokens are drawn."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            stop=self.stop,
            omit_reasoning=self.omit_reasoning,
        )


class BenchmarkRequest(Frozen):
    """A setting of a benchmark on one version of its data."""

    name: str
    """A benchmark, `.` and a setting of it; where it has one setting, its name alone will do."""
    data: str | None = None
    """File or folder of raw data; without it what was staged before, or the bundled sample."""
    dataset_version: str | None = None
    options: dict[str, str] = Field(default_factory=dict)
    limit: int | None = Field(default=None, ge=1)
    """The dialogues of the first N problems only."""
    samples: int = Field(default=1, ge=1)
    seed: int = 0


class EvaluationRequest(Frozen):
    """One evaluation. Safe to show: it is a Prefect parameter."""

    model: ModelRequest
    benchmark: BenchmarkRequest
    simulator: ModelRequest | None = None
    judge: ModelRequest | None = None
    sandbox: str = Field(default_factory=default_name)
    concurrency: int = Field(default=64, ge=1)
    workers: int = Field(default=2, ge=1)
    max_fault_share: float = Field(default=0.01, ge=0, le=1)
    fsync: bool = False
    """Flush journal and Parquet to the disk at each write: safe against loss of power, slower."""
    resume: str | None = None
    """Id of the run to go on with. Refused where the request describes another run."""

    @property
    def title(self) -> str:
        """Benchmark and model in one line; a recording is shown without its folder."""
        provider, _, rest = self.model.spec.partition(":")
        shown = f"{provider}:{PurePath(rest).name}" if provider == "recorded" else self.model.spec
        return f"{self.benchmark.name} · {shown}"

    @model_validator(mode="after")
    def _no_key_in_spec(self) -> Self:
        for model in (self.model, self.simulator, self.judge):
            if model is not None and model.key_env is not None and not model.key_env.isidentifier():
                raise ConfigError(
                    "key_env is not the name of a variable (and is not shown, in case it is the key itself). Put the key into a"
                    " variable, and its name here"
                )
            if model is not None and "://" in model.spec and "@" in model.spec.split("://", 1)[1].split("/")[0]:
                raise ConfigError("a model spec holds user or key in its URL. Put the key into a variable and name it by key_env")
        return self


def explain(error: ValidationError) -> str:
    """A validation error in one line: each field with its value and what it takes."""
    parts = []
    problems = error.errors()
    for problem in problems:
        if problem["type"] == "too_short" and any(_lies_in(other["loc"], problem["loc"]) for other in problems):
            continue  # its members are not valid, and pydantic counts the valid ones
        place = ".".join(str(step) for step in problem["loc"]) or "the whole"
        known = ""
        if problem["type"] == "extra_forbidden":
            known = "; no such field"
        if problem["type"] == "string_type" and isinstance(problem["input"], (int, float, date)):
            known = ": put it in quotes"
        shown = plain_line(repr(_without_keys(problem["input"])), 60) if problem["type"] != "missing" else "missing"
        if any(looks_secret(str(step)) for step in problem["loc"]):
            shown = "(not shown)"
        parts.append(f"{place} = {shown}: {problem['msg']}{known}" if shown != "missing" else f"{place} is missing")
    return "; ".join(parts)


def _lies_in(place: tuple[int | str, ...], whole: tuple[int | str, ...]) -> bool:
    return len(place) > len(whole) and place[: len(whole)] == whole


def _without_keys(value: Any) -> Any:
    """The given values, without the values of fields that look like keys."""
    if isinstance(value, Mapping):
        return {name: "(not shown)" if looks_secret(str(name)) else _without_keys(item) for name, item in value.items()}
    return [_without_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


def key_names(requests: Sequence[EvaluationRequest]) -> tuple[str, ...]:
    """Names of the variables that hold these models' keys: the only ones of their kind that workers are given."""
    models = [m for r in requests for m in (r.model, r.simulator, r.judge) if m is not None]
    named = {m.key_env for m in models if m.key_env}
    if any(m.spec.startswith("openai:") and not m.key_env and ("@http" not in m.spec or OPENAI_URL in m.spec) for m in models):
        named.add(OPENAI_KEY_VARIABLE)
    return tuple(sorted(named))

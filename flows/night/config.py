"""The configuration of a night: a YAML file, validated; see `nightly.yaml` for an example with every field."""

from collections.abc import Mapping
from importlib.resources import as_file
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from flows.night.reporting.destinations import Notify
from flows.site.target import SiteTarget
from sandbox.registry import SANDBOXES, default_name
from schemas.audit import AuditMode
from schemas.base import Frozen
from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.night.budget import Budget
from schemas.night.decision import DecisionRule
from schemas.outside.display import plain_line
from tasks.benchmarks.raw_tables import is_hub_dataset
from tasks.benchmarks.registry import BENCHMARKS, FIRST
from tasks.checkpoints.source import CheckpointSource
from tasks.datasets.located import dataset_named
from tasks.language.providers.registry import provider_of
from tasks.metrics.registry import METRICS
from tasks.planning.dataset import located
from tasks.planning.participants.choice import find_setting
from tasks.planning.request import (
    BenchmarkRequest,
    ComparisonRequest,
    EvaluationRequest,
    ModelRequest,
    explain,
)


class BenchmarkEntry(BenchmarkRequest):
    """A benchmark of a night, for all of its models or some."""

    models: tuple[str, ...] = ()
    """Specs of the night's models that are run on it; all where none is named."""
    audit: AuditMode | None = None
    """Passes to audit in its runs; without it the night's `audit`."""
    decide: DecisionRule | None = None
    """Rule by which its runs stop asking early; without it the night's `decide`."""


class NightlyConfig(Frozen):
    """Every model is run on every benchmark that does not name others."""

    home: str | None = None
    """Folder of all data; `$PARLEY_HOME` wins."""
    sandbox: str = Field(default_factory=default_name)
    """Without it, the machine's default counts: see `parley doctor`."""
    concurrency: int = Field(default=64, ge=1)
    """Model requests in flight to one endpoint."""
    workers: int = Field(default=2, ge=1)
    """Dask worker processes; fewer where a night has fewer episodes."""
    runs_at_once: int = Field(default=16, ge=1)
    """Most runs that go side by side; 1 has them go one after another."""
    max_fault_share: float = Field(default=0.01, ge=0, le=1)
    """A run with a larger share of episodes with infra faults or unscored turns is withheld."""
    audit: AuditMode = "sample"
    """Passes to audit: none, a sample of each run, or all."""
    max_forged_share: float = Field(default=0.01, ge=0, le=1)
    """A run with a larger share of forged passes among the audited ones is withheld."""
    fsync: bool = False
    """Flush each write to the disk: safe against loss of power, slower."""
    simulator: ModelRequest | None = None
    judge: ModelRequest | None = None
    """Judges by every rubric that `judges` does not name."""
    judges: dict[str, ModelRequest] = Field(default_factory=dict)
    """Rubric -> who judges by it."""
    embedder: ModelRequest | None = None
    """Makes the vectors of texts, for the settings that read some."""
    comparison: ComparisonRequest | None = None
    """A baseline, and the losses that are regressions; without it as stated before, if ever."""
    decide: DecisionRule | None = None
    """Stop asking once a run's comparison with a baseline is decided; without it all is asked."""
    budget: Budget | None = None
    """Where a night stops; without it nowhere."""
    notify: Notify | None = None
    """Which events to notify about, and where. Default: no notifications."""
    site_url: str | None = None
    """Address of the pages of `parley site`: messages and artifacts link to it, and a night ends by writing them there."""
    site_target: str | None = None
    """Folder or fsspec URL to write the pages to, where `site_url` is an address for readers only (https://…)."""
    telemetry: str | None = None
    """Base URL of the OpenTelemetry collector that gets metrics and spans, such as http://localhost:4318. Default: none."""
    models: tuple[ModelRequest, ...] = ()
    """Models of every night. At least one, or a source."""
    sources: tuple[CheckpointSource, ...] = ()
    """Where checkpoints appear; see `flows.night.checkpoints` for what a night takes of them."""
    benchmarks: tuple[BenchmarkEntry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_its_models(self) -> Self:
        known = sorted({model.spec for model in self.models})
        for entry in self.benchmarks:
            if unknown := sorted(set(entry.models) - set(known)):
                raise ValueError(
                    f"{entry.name} names {', '.join(unknown)}; `models` holds only {', '.join(known)}"
                )
        return self

    @field_validator("comparison")
    @classmethod
    def _of_known_metrics(cls, given: ComparisonRequest | None) -> ComparisonRequest | None:
        for name in given.thresholds if given else ():
            try:
                METRICS.load(name)
            except UnknownName as error:
                raise ConfigError(f"comparison.thresholds: {error}") from None
        return given

    def site_at(self, folder: Path) -> SiteTarget | None:
        """Return where the site is read and written; None where a night writes none.

        Args:
            folder: relative paths in the configuration begin here.
        """
        if self.site_url is None:
            return None
        url, target = (
            place if place is None or "://" in place else str(folder / Path(place).expanduser())
            for place in (self.site_url, self.site_target)
        )
        return SiteTarget(url=url or "", target=target)

    @property
    def _judges(self) -> dict[str, ModelRequest]:
        return ({"": self.judge} if self.judge else {}) | self.judges

    @model_validator(mode="after")
    def _has_site(self) -> Self:
        if self.site_target and not self.site_url:
            raise ConfigError(
                "`site_target` needs `site_url`: the address at which the pages that it holds are read"
            )
        self.site_at(Path())
        return self

    @model_validator(mode="after")
    def _has_models(self) -> Self:
        if not self.models and not self.sources:
            raise ConfigError(
                "neither `models` nor `sources` names a model to evaluate; give at least one"
            )
        return self

    def requests(self, folder: Path) -> tuple[EvaluationRequest, ...]:
        """One request for each benchmark and model. The checkpoints of the sources are not among them.

        Args:
            folder: relative paths in the configuration begin here.
        """
        return tuple(
            self._request(model, entry, folder)
            for entry in self.benchmarks
            for model in self.models
            if not entry.models or model.spec in entry.models
        )

    def requests_for(self, model: ModelRequest, folder: Path) -> tuple[EvaluationRequest, ...]:
        """One request for each benchmark that names no models, of one model that need not be among the configuration's."""
        return tuple(
            self._request(model, entry, folder) for entry in self.benchmarks if not entry.models
        )

    def _request(
        self, model: ModelRequest, entry: BenchmarkEntry, folder: Path
    ) -> EvaluationRequest:
        return EvaluationRequest(
            model=_located(model, folder),
            benchmark=_benchmark(entry, folder),
            simulator=_located(self.simulator, folder) if self.simulator else None,
            judges={name: _located(judge, folder) for name, judge in self._judges.items()},
            embedder=self.embedder,
            sandbox=self.sandbox,
            concurrency=self.concurrency,
            workers=self.workers,
            max_fault_share=self.max_fault_share,
            audit=entry.audit or self.audit,
            max_forged_share=self.max_forged_share,
            fsync=self.fsync,
            comparison=self.comparison,
            decide=entry.decide or self.decide,
        )


def _benchmark(entry: BenchmarkEntry, folder: Path) -> BenchmarkRequest:
    fields = entry.model_dump(exclude={"models", "audit", "decide"})
    resources = located(entry.name, entry.resources, folder)
    places = {"data": _located_data(entry, folder), "resources": resources}
    templates = {"templates": str(folder / entry.templates)} if entry.templates else {}
    return BenchmarkRequest.model_validate(fields | places | templates)


def _located(model: ModelRequest, folder: Path) -> ModelRequest:
    name, _, rest = model.spec.partition(":")
    provider = provider_of(model.spec)
    update = (
        {"spec": f"{name}:{provider.located(rest, folder)}"}
        if provider and provider.located
        else {}
    )
    if model.system_prompt:
        update["system_prompt"] = str(folder / Path(model.system_prompt).expanduser())
    return model.model_copy(update=update) if update else model


def _located_data(entry: BenchmarkEntry, folder: Path) -> str | None:
    data, benchmark = entry.data, entry.name.partition(".")[0]
    if not data or is_hub_dataset(data):
        return data
    is_path = (folder / data).exists() or benchmark not in BENCHMARKS.names()
    return (
        str(folder / data)
        if is_path or dataset_named(BENCHMARKS.load(benchmark), data) is None
        else data
    )


def read_config(path: Path, *, check_names: bool = True) -> NightlyConfig:
    """Read and validate a configuration.

    Args:
        check_names: refuse unknown benchmarks and sandboxes, too; False for who does so where a failure is told of.

    Raises:
        ConfigError: names the file, the field, its fault and its possible values.
    """
    try:
        data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"configuration {path} does not exist. Copy the example nightly.yaml, or name another by --config"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(
            f"configuration {path} is not YAML: {plain_line(str(error), 300)}. Texts with brackets, commas or colons need quotes"
        ) from error
    if not isinstance(data, dict):
        raise ConfigError(
            f"configuration {path} holds no fields; it needs at least `models` (or `sources`) and `benchmarks`"
        )
    try:
        config = NightlyConfig.model_validate(_with_located_files(data, path.absolute().parent))
        config.requests_for(
            ModelRequest(spec="control:empty"), path.absolute().parent
        )  # who takes which part
    except ValidationError as error:
        raise ConfigError(f"configuration {path}: {explain(error)}") from error
    except UsageError as error:
        raise ConfigError(f"configuration {path}: {_place_of(str(error), data)}{error}") from error
    if check_names:
        require_known_names(config, path)
    return config


def _with_located_files(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields with benchmarks' files as seen from the configuration's folder."""
    entries = data.get("benchmarks")
    if not isinstance(entries, list):
        return data
    located = [
        {**entry, "name": str(folder / entry["name"])}
        if isinstance(entry, dict) and ".py" in str(entry.get("name"))
        else entry
        for entry in entries
    ]
    return {**data, "benchmarks": located}


def require_known_names(config: NightlyConfig, path: Path) -> None:
    """Refuse a name that would be unknown once a run of it is due, which may be weeks later.

    Raises:
        ConfigError: an unknown benchmark, setting or sandbox.
    """
    for number, entry in enumerate(config.benchmarks):
        try:
            find_setting(entry.name)
        except UsageError as error:
            raise ConfigError(f"configuration {path}: benchmarks.{number}.name: {error}") from None
    try:
        SANDBOXES.require(config.sandbox)
    except UnknownName as error:
        raise ConfigError(f"configuration {path}: {error}") from None


def _place_of(said: str, data: Mapping[str, Any]) -> str:
    """The field that raises this error, or the member of its list, with a colon; empty where no single one does."""
    for name in data.keys() & NightlyConfig.model_fields.keys():
        given, kind = data[name], TypeAdapter[Any](NightlyConfig.__annotations__[name])
        parts = (
            [(f"{name}.{n}", [one]) for n, one in enumerate(given)]
            if isinstance(given, list)
            else [(name, given)]
        )
        for place, part in parts:
            try:
                kind.validate_python(part)
            except ValidationError:
                continue
            except UsageError as error:
                if str(error) == said:
                    return f"{place}: "
    return ""


def demo_requests(name: str | None) -> tuple[EvaluationRequest, ...]:
    """Requests of a benchmark's demo, or of the first benchmark's where none is named.

    Raises:
        UnknownName: no such benchmark.
        ConfigError: it offers no demo.
    """
    benchmark = BENCHMARKS.load(name or FIRST)
    if benchmark.data.demo is None:
        raise ConfigError(
            f"benchmark {benchmark.name!r} offers no demo. Try its sample: parley run"
            f" '{benchmark.name}.{next(iter(benchmark.settings))}' --dataset-version sample --model control:gold"
        )
    with as_file(benchmark.data.demo) as config:
        return read_config(config).requests(config.parent)

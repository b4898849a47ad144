"""Configuration of a night: a validated YAML file.

`nightly.yaml` is an example with every field.
"""

from collections.abc import Iterable, Mapping
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
from tasks.benchmarks.raw_rows import is_hub_dataset
from tasks.benchmarks.registry import BENCHMARKS, FIRST
from tasks.checkpoints.source import CheckpointSource
from tasks.datasets.catalogue import dataset_named
from tasks.language.providers.registry import provider_of
from tasks.metrics.registry import METRICS
from tasks.planning.dataset import absolute_resources
from tasks.planning.participants.choice import find_setting, refuse_needless
from tasks.planning.request import (
    BenchmarkRequest,
    ComparisonRequest,
    EvaluationRequest,
    ModelRequest,
)
from tasks.planning.validation_errors import explain


class BenchmarkEntry(BenchmarkRequest):
    """Benchmark of a night, run on all of its models or on some of them."""

    models: tuple[str, ...] = ()
    """Specs of the models that run on this benchmark. Default: all models of the night."""
    audit: AuditMode | None = None
    """Which passes to audit in runs of this benchmark. Default: the night's `audit`."""
    decide: DecisionRule | None = None
    """Rule for stopping runs of this benchmark early. Default: the night's `decide`."""


class NightlyConfig(Frozen):
    """Configuration of a night. Each model runs on each benchmark that lists no `models` itself."""

    home: str | None = None
    """Folder of all data. The environment variable `PARLEY_HOME` takes precedence."""
    sandbox: str = Field(default_factory=default_name)
    """Sandbox that runs the programs. Default: this machine's default, shown by `parley doctor`."""
    concurrency: int = Field(default=64, ge=1)
    """Maximum number of model requests in flight to one endpoint."""
    workers: int = Field(default=2, ge=1)
    """Number of Dask worker processes, at most one for each 16 episodes of the largest run."""
    runs_at_once: int = Field(default=16, ge=1)
    """Maximum number of runs that execute in parallel. With 1, runs execute one after another."""
    max_fault_share: float = Field(default=0.01, ge=0, le=1)
    """Maximum share of episodes with infrastructure faults or unscored turns.

    A run above it is withheld.
    """
    audit: AuditMode = "sample"
    """Which passes to audit: none, a sample of each run, or all."""
    max_forged_share: float = Field(default=0.01, ge=0, le=1)
    """Maximum share of forged passes among the audited passes. A run above it is withheld."""
    fsync: bool = False
    """Flush each write to the disk. This protects against power loss, and is slower."""
    simulator: ModelRequest | None = None
    judge: ModelRequest | None = None
    """Judge model for every rubric that `judges` does not name."""
    judges: dict[str, ModelRequest] = Field(default_factory=dict)
    """Judge model of each rubric, by the rubric's name."""
    embedder: ModelRequest | None = None
    """Embedding model, for the settings that need text embeddings."""
    comparison: ComparisonRequest | None = None
    """Baseline, and the losses that count as regressions.

    Default: the comparison stated in an earlier run, if any.
    """
    decide: DecisionRule | None = None
    """Rule for stopping a run once its comparison with a baseline is decided.

    Default: send all requests.
    """
    budget: Budget | None = None
    """Caps at which a night stops. Default: no caps."""
    notify: Notify | None = None
    """Which events to notify about, and where. Default: no notifications."""
    site_url: str | None = None
    """Address of the site's pages.

    Messages and artifacts link to it, and a night writes the pages there at its end.
    """
    site_target: str | None = None
    """Folder or fsspec URL to write the pages to.

    Set it if `site_url` is an https:// address: Parley cannot write there, and without a target
    writes the pages only to its home.
    """
    telemetry: str | None = None
    """Base URL of the OpenTelemetry collector for metrics and spans. Default: none.

    Example: http://localhost:4318.
    """
    models: tuple[ModelRequest, ...] = ()
    """Models that every night evaluates. At least one model or one source is required."""
    sources: tuple[CheckpointSource, ...] = ()
    """Sources of new checkpoints. `flows.night.checkpoints` selects the checkpoints for a night."""
    benchmarks: tuple[BenchmarkEntry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _require_listed_models(self) -> Self:
        known_specs = sorted({model.spec for model in self.models})
        for entry in self.benchmarks:
            if unknown := sorted(set(entry.models) - set(known_specs)):
                raise ValueError(
                    f"{entry.name} lists models that `models` does not contain:"
                    f" {', '.join(unknown)}. `models` contains {', '.join(known_specs)}"
                )
        return self

    @field_validator("comparison")
    @classmethod
    def _require_known_metrics(
        cls, comparison: ComparisonRequest | None
    ) -> ComparisonRequest | None:
        for name in comparison.thresholds if comparison else ():
            try:
                METRICS.load(name)
            except UnknownName as error:
                raise ConfigError(f"comparison.thresholds: {error}") from None
        return comparison

    def site_at(self, folder: Path) -> SiteTarget | None:
        """Return where the site is read and written, or None if the night writes no site.

        Args:
            folder: Base folder of relative paths in the configuration.
        """
        if self.site_url is None:
            return None
        url, target = (
            place if place is None or "://" in place else str(folder / Path(place).expanduser())
            for place in (self.site_url, self.site_target)
        )
        return SiteTarget(url=url or "", target=target)

    def _judges_of(self, entry: BenchmarkEntry, folder: Path) -> dict[str, ModelRequest]:
        """Return the judges of an entry, without those of rubrics that only other entries have."""
        judges = ({"": self.judge} if self.judge else {}) | self.judges
        others = [_rubrics(other.name) for other in self.benchmarks] if self.judges else []
        elsewhere = set[str]().union(*others) - (_rubrics(entry.name) if others else set())
        return {
            name: _located(judge, folder) for name, judge in judges.items() if name not in elsewhere
        }

    @model_validator(mode="after")
    def _require_site_url(self) -> Self:
        if self.site_target and not self.site_url:
            raise ConfigError(
                "`site_target` needs `site_url`, the address where readers open the pages"
            )
        self.site_at(Path())
        return self

    @model_validator(mode="after")
    def _require_models(self) -> Self:
        if not self.models and not self.sources:
            raise ConfigError(
                "`models` and `sources` are both empty. Name at least one model or source"
            )
        return self

    def requests(self, folder: Path) -> tuple[EvaluationRequest, ...]:
        """Return one request per benchmark and model, without the checkpoints of the sources.

        A benchmark or model that the configuration lists twice has one request.

        Args:
            folder: Base folder of relative paths in the configuration.
        """
        return _distinct(
            self._request(model, entry, folder)
            for entry in self.benchmarks
            for model in self.models
            if not entry.models or model.spec in entry.models
        )

    def requests_for(self, model: ModelRequest, folder: Path) -> tuple[EvaluationRequest, ...]:
        """Return one request for `model` per benchmark that lists no `models`.

        The model need not be in the configuration.
        """
        return _distinct(
            self._request(model, entry, folder) for entry in self.benchmarks if not entry.models
        )

    def _request(
        self, model: ModelRequest, entry: BenchmarkEntry, folder: Path
    ) -> EvaluationRequest:
        return EvaluationRequest(
            model=_located(model, folder),
            benchmark=_benchmark(entry, folder),
            simulator=_located(self.simulator, folder) if self.simulator else None,
            judges=self._judges_of(entry, folder),
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


def _rubrics(name: str) -> set[str]:
    benchmark, setting = find_setting(name)
    return {rubric.name for rubric in benchmark.rubrics(setting)}


def _distinct(requests: Iterable[EvaluationRequest]) -> tuple[EvaluationRequest, ...]:
    return tuple({request.model_dump_json(): request for request in requests}.values())


def _benchmark(entry: BenchmarkEntry, folder: Path) -> BenchmarkRequest:
    fields = entry.model_dump(exclude={"models", "audit", "decide"})
    resources = absolute_resources(entry.name, entry.resources, folder)
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
        path: Path of the YAML file.
        check_names: Also reject unknown benchmarks and sandboxes. Pass False if the caller calls
            `require_known_names` itself, inside the block that sends failure notifications.

    Raises:
        ConfigError: The message names the file, the field, the fault and the possible values.
    """
    try:
        data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"configuration {path} does not exist. Copy the example nightly.yaml,"
            " or pass another path with --config"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(
            f"configuration {path} is not valid YAML: {plain_line(str(error), 300)}."
            " Quote texts that contain brackets, commas or colons"
        ) from error
    if not isinstance(data, dict):
        raise ConfigError(
            f"configuration {path} is not a YAML mapping. It needs at least"
            " `models` (or `sources`) and `benchmarks`"
        )
    try:
        config = NightlyConfig.model_validate(_with_located_files(data, path.absolute().parent))
        # Check early that each model can take its role in each benchmark.
        config.requests_for(ModelRequest(spec="control:empty"), path.absolute().parent)
    except ValidationError as error:
        raise ConfigError(f"configuration {path}: {explain(error)}") from error
    except UsageError as error:
        raise ConfigError(
            f"configuration {path}: {_field_of_error(str(error), data)}{error}"
        ) from error
    if check_names:
        require_known_names(config, path)
    return config


def _with_located_files(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields, with benchmark file paths resolved against the configuration's folder."""
    entries = data.get("benchmarks")
    if not isinstance(entries, list):
        return data
    absolute_resources = [
        {**entry, "name": str(folder / entry["name"])}
        if isinstance(entry, dict) and ".py" in str(entry.get("name"))
        else entry
        for entry in entries
    ]
    return {**data, "benchmarks": absolute_resources}


def require_known_names(config: NightlyConfig, path: Path) -> None:
    """Reject an unknown name now rather than when a run needs it, which may be weeks later.

    Raises:
        ConfigError: A benchmark, setting or sandbox is unknown.
    """
    for number, entry in enumerate(config.benchmarks):
        try:
            find_setting(entry.name)
        except UsageError as error:
            raise ConfigError(f"configuration {path}: benchmarks.{number}.name: {error}") from None
        if entry.audit is not None:
            refuse_needless(
                entry.name, "sandbox", f"configuration {path}: benchmarks.{number}.audit"
            )
    try:
        SANDBOXES.require(config.sandbox)
    except UnknownName as error:
        raise ConfigError(f"configuration {path}: {error}") from None


def _field_of_error(message: str, data: Mapping[str, Any]) -> str:
    """Return the field or list item whose validation raises this message, followed by a colon.

    Return "" if no single field raises it.
    """
    for name in data.keys() & NightlyConfig.model_fields.keys():
        value, kind = data[name], TypeAdapter[Any](NightlyConfig.__annotations__[name])
        parts = (
            [(f"{name}.{n}", [item]) for n, item in enumerate(value)]
            if isinstance(value, list)
            else [(name, value)]
        )
        for field, part in parts:
            try:
                kind.validate_python(part)
            except ValidationError:
                continue
            except UsageError as error:
                if str(error) == message:
                    return f"{field}: "
    return ""


def demo_requests(name: str | None) -> tuple[EvaluationRequest, ...]:
    """Return the requests of a benchmark's demo. The default benchmark is the first registered one.

    Raises:
        UnknownName: No benchmark has this name.
        ConfigError: The benchmark has no demo.
    """
    benchmark = BENCHMARKS.load(name or FIRST)
    if benchmark.data.demo is None:
        raise ConfigError(
            f"benchmark {benchmark.name!r} has no demo. Try its sample: parley run"
            f" '{benchmark.name}.{next(iter(benchmark.settings))}'"
            " --dataset-version sample --model control:gold"
        )
    with as_file(benchmark.data.demo) as config:
        return read_config(config).requests(config.parent)

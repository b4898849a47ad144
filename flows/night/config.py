"""The configuration of a night: a YAML file, validated; see `nightly.yaml` for an example with every field."""

from importlib.resources import as_file
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from sandbox.registry import default_name
from schemas.base import Frozen
from schemas.display import plain_line
from schemas.errors import ConfigError
from tasks.benchmarks import registry
from tasks.benchmarks.raw_tables import is_hub_dataset
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest, explain


class NightlyConfig(Frozen):
    """Every model is run on every benchmark."""

    home: str | None = None
    """Folder of all data; `$PARLEY_HOME` wins."""
    sandbox: str = Field(default_factory=default_name)
    """Without it, the machine's default counts: see `parley doctor`."""
    concurrency: int = Field(default=64, ge=1)
    """Model requests in flight to one endpoint."""
    workers: int = Field(default=2, ge=1)
    """Dask worker processes."""
    max_fault_share: float = Field(default=0.01, ge=0, le=1)
    """A run with a larger share of episodes with infra faults or unscored turns is withheld."""
    fsync: bool = False
    """Flush each write to the disk: safe against loss of power, slower."""
    simulator: ModelRequest | None = None
    judge: ModelRequest | None = None
    models: tuple[ModelRequest, ...] = Field(min_length=1)
    benchmarks: tuple[BenchmarkRequest, ...] = Field(min_length=1)

    def requests(self, folder: Path) -> tuple[EvaluationRequest, ...]:
        """One request for each benchmark and model.

        Args:
            folder: relative paths in the configuration begin here.
        """
        return tuple(
            EvaluationRequest(
                model=_located(model, folder),
                benchmark=benchmark.model_copy(update={"data": _located_data(benchmark.data, folder)}),
                simulator=_located(self.simulator, folder) if self.simulator else None,
                judge=_located(self.judge, folder) if self.judge else None,
                sandbox=self.sandbox,
                concurrency=self.concurrency,
                workers=self.workers,
                max_fault_share=self.max_fault_share,
                fsync=self.fsync,
            )
            for benchmark in self.benchmarks
            for model in self.models
        )


def _located(model: ModelRequest, folder: Path) -> ModelRequest:
    provider, _, rest = model.spec.partition(":")
    return model.model_copy(update={"spec": f"recorded:{folder / rest}"}) if provider == "recorded" else model


def _located_data(data: str | None, folder: Path) -> str | None:
    return data if not data or is_hub_dataset(data) else str(folder / data)


def read_config(path: Path) -> NightlyConfig:
    """Read and validate a configuration.

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
        raise ConfigError(f"configuration {path} holds no fields; it needs at least `models` and `benchmarks`")
    try:
        return NightlyConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"configuration {path}: {explain(error)}") from error


def demo_requests(name: str | None) -> tuple[EvaluationRequest, ...]:
    """Requests of a benchmark's demo, or of the first benchmark's where none is named.

    Raises:
        UnknownName: no such benchmark.
        ConfigError: it offers no demo.
    """
    benchmark = registry.load(name or registry.FIRST)
    if benchmark.data.demo is None:
        raise ConfigError(
            f"benchmark {benchmark.name!r} offers no demo. Try its sample: parley run"
            f" '{benchmark.name}.{next(iter(benchmark.settings))}' --dataset-version sample --model control:gold"
        )
    with as_file(benchmark.data.demo) as config:
        return read_config(config).requests(config.parent)

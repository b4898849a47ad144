"""Finds the setting and the models that a request names."""

from datetime import UTC, datetime

from schemas.errors import ConfigError
from schemas.run import ModelIdentity
from tasks.benchmarks import registry
from tasks.benchmarks.contract import Benchmark
from tasks.language.model_spec import ModelChoice, parse_model
from tasks.planning.request import ModelRequest
from tasks.storage.file_digests import FileDigests
from tasks.storage.home import Home


def choose(request: ModelRequest, resumed: ModelIdentity | None, home: Home | None = None) -> ModelChoice:
    """Who is asked for, and where. A run that is resumed keeps the revision that it was begun with.

    Args:
        home: keeps the digests of large files, so that weights are read once.
    """
    revision = request.revision or (resumed.revision if resumed and resumed.revision else None)
    return parse_model(
        request.spec,
        key_env=request.key_env,
        revision=revision,
        today=datetime.now(UTC).strftime("%Y-%m-%d"),
        name=request.name,
        serve=request.serve,
        digests=FileDigests(home.file_digests if home else None),
    )


def find_setting(name: str) -> tuple[Benchmark, str]:
    """`benchmark.setting`, or the benchmark alone where it has one setting.

    Raises:
        UnknownName: lists the known names.
    """
    first, _, rest = name.partition(".")
    benchmark = registry.load(first)
    if not rest:
        if len(benchmark.settings) != 1:
            raise ConfigError(
                f"benchmark {name!r} has several settings: name one of {', '.join(f'{first}.{s}' for s in benchmark.settings)}"
            )
        rest = next(iter(benchmark.settings))
    benchmark.setting(rest)
    return benchmark, rest

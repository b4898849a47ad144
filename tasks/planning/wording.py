"""Puts a user's templates (`--templates DIR`) in the place of a benchmark's own texts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.content_id import text_digest
from schemas.errors import ConfigError
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.templates import owner_of, read_templates

Digests = tuple[tuple[str, str], ...]
"""(name, digest) of each text that differs from Parley's own, sorted by name."""


def worded(benchmark: Benchmark, setting: str, folder: str | None) -> tuple[Benchmark, Digests]:
    """Return the benchmark with the user's texts of a setting, and their digests as a run's id holds them.

    The folder may hold texts of other settings, too: these are checked, and change nothing.

    Raises:
        ConfigError: no such templates; names the file, the placeholder at fault and the remedy.
    """
    if folder is None:
        return benchmark, ()
    wording = benchmark.wording
    if wording is None:
        known = ", ".join(
            name for name in BENCHMARKS.names() if BENCHMARKS.load(name).wording is not None
        )
        raise ConfigError(
            f"templates {folder}: {benchmark.name} takes none. Leave them out; benchmarks that take some: {known}"
        )
    own = {name for name, template in wording.templates.items() if setting in template.settings}
    found = read_templates(Path(folder), wording.templates)
    texts = {name: text for name, text in found.items() if owner_of(name) in own}
    if not texts and not own & {path.name.partition(".")[0] for path in Path(folder).iterdir()}:
        raise ConfigError(
            f"templates {folder}: none of its files belongs to {benchmark.name}.{setting}, which takes"
            f" {', '.join(f'{name}.md' for name in sorted(own)) or 'none'}. Add one, or leave the folder out"
        )
    digests = tuple(sorted((name, text_digest(text)) for name, text in texts.items()))
    return (wording.reword(texts) if texts else benchmark), digests


def prompt_digests(benchmark: Benchmark, setting: str, options: Mapping[str, Any]) -> Digests:
    """Return (name, digest) of each prompt of a setting, by name."""
    prompts = benchmark.prompts_of(setting, options)
    return tuple((name, text_digest(prompts[name])) for name in sorted(prompts))

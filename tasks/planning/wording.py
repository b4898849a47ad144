"""Replacement of a benchmark's own texts by a user's templates (`--templates DIR`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.content_id import text_digest
from schemas.errors import ConfigError
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.templates import owner_of, read_templates

Digests = tuple[tuple[str, str], ...]
"""Digests of the texts that differ from Parley's own: (name, digest), sorted by name."""


def apply_templates(
    benchmark: Benchmark, setting: str, folder: str | None
) -> tuple[Benchmark, Digests]:
    """Return the benchmark with the user's texts of a setting, and the digests for the run's id.

    Texts of other settings in the folder are checked, but not used.

    Raises:
        ConfigError: the templates are missing or invalid. The message contains the file, the
            placeholder and the remedy.
    """
    if folder is None:
        return benchmark, ()
    wording = benchmark.wording
    if wording is None:
        others = ", ".join(
            name for name in BENCHMARKS.names() if BENCHMARKS.load(name).wording is not None
        )
        raise ConfigError(
            f"templates {folder}: {benchmark.name} takes no templates. Remove the option. "
            f"Benchmarks that take templates: {others}"
        )
    own = {name for name, template in wording.templates.items() if setting in template.settings}
    templates = read_templates(Path(folder), wording.templates)
    texts = {name: text for name, text in templates.items() if owner_of(name) in own}
    if not texts and not own & {path.name.partition(".")[0] for path in Path(folder).iterdir()}:
        raise ConfigError(
            f"templates {folder}: no file belongs to {benchmark.name}.{setting}, which takes "
            f"{', '.join(f'{name}.md' for name in sorted(own)) or 'none'}. "
            "Add one, or remove the option"
        )
    digests = tuple(sorted((name, text_digest(text)) for name, text in texts.items()))
    return (wording.reword(texts) if texts else benchmark), digests


def prompt_digests(benchmark: Benchmark, setting: str, options: Mapping[str, Any]) -> Digests:
    """Return (name, digest) of each prompt of a setting, sorted by name."""
    prompts = benchmark.prompts_of(setting, options)
    return tuple((name, text_digest(prompts[name])) for name in sorted(prompts))

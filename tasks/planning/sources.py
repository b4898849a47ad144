"""Finds the files that dialogs' programs run in, below the folders that a user named, and gives each dialog their digest."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from schemas.dialog import MISSING, Dialog
from schemas.errors import ConfigError, UnknownName
from tasks.benchmarks.contract import Benchmark, Source, Staged
from tasks.storage.source_trees import tree_digest


def with_sources(benchmark: Benchmark, staged: Staged, resources: Mapping[str, str]) -> Staged:
    """The rows, each dialog that needs files with the digest of those that lie there, or the word that they are missing.

    Raises:
        UnknownName: the benchmark has no such resource.
        ConfigError: a resource is no folder.
    """
    for name, folder in resources.items():
        if name not in benchmark.data.resources:
            raise UnknownName(f"resource of {benchmark.name}", name, benchmark.data.resources)
        if not Path(folder).is_dir():
            raise ConfigError(f"--resource {name}={folder}: there is no such folder. {benchmark.data.resources[name]}")
    if not benchmark.data.resources:
        return staged
    known: dict[Source, str] = {}

    def found(dialog: Dialog) -> Dialog:
        source = benchmark.data.source_of(dialog)
        if source is None:
            return dialog
        if source not in known:
            known[source] = _digest(source, resources)
        return dialog.with_tree(known[source])

    return replace(staged, dialogs=tuple(map(found, staged.dialogs)))


def _digest(source: Source, resources: Mapping[str, str]) -> str:
    folder = Path(resources[source.resource]) / source.folder if source.resource in resources else None
    return tree_digest(folder) if folder is not None and folder.is_dir() else MISSING

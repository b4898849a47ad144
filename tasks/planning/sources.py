"""Finds the files that dialogs' programs run in, below the folders that a user named, and gives each dialog their digest."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from schemas.dialog import MISSING, Dialog
from tasks.benchmarks.contract import Benchmark, Source, Staged, no_source
from tasks.storage.files.source_trees import tree_digest


def with_sources(benchmark: Benchmark, staged: Staged, resources: Mapping[str, str]) -> Staged:
    """The rows, each dialog that needs files with the digest of those that lie there, or the word that they are missing."""
    if benchmark.data.source_of is no_source:
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

"""Datasets for tests, and a home to fetch them into."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.datasets.fetching import Fetched, fetch_dataset
from tasks.datasets.public_data import FileFacts, PublicDataset
from tasks.storage.home import Home


def declared(
    *sources: Mapping[str, Any], files: Mapping[str, bytes | None] | None = None, **more: Any
) -> PublicDataset:
    """A dataset of these sources.

    Of each of `files` the right size and digest are known, but for those of None.
    """
    facts = {
        place: FileFacts()
        if content is None
        else FileFacts(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        for place, content in (files or {}).items()
    }
    about = {
        "name": "letters",
        "benchmark": "alphabet",
        "title": "Letters",
        "licence": "MIT",
        "version": "current",
    }
    return PublicDataset.model_validate({**about, "sources": sources, "files": facts, **more})


class Notes(list[str]):
    """What was said while a dataset was fetched."""

    def __call__(self, text: str) -> None:
        self.append(text)


def fetch(
    dataset: PublicDataset, home: Path, environ: Mapping[str, str], notes: Notes | None = None
) -> Fetched:
    """Fetch a dataset into a home, with these variables beside those of the test."""
    return fetch_dataset(
        dataset, Home.at(home), notes if notes is not None else Notes(), {**os.environ, **environ}
    )

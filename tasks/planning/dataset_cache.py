"""Cache of the datasets that one session has parsed and resolved."""

from collections.abc import Mapping
from pathlib import Path

from schemas.content_id import canonical_json
from tasks.benchmarks.contract import Benchmark, Staged
from tasks.storage.home import Home


class DatasetCache:
    """Datasets that a session has parsed. Each is parsed once, so that all runs see equal rows."""

    def __init__(self) -> None:
        self._staged: dict[tuple[str, str, str], Staged] = {}

    def read(self, benchmark: Benchmark, source: Path, version: str) -> Staged:
        """Parse raw data.

        Raises:
            SourceUnreadable: no row can be read.
        """
        key = (benchmark.name, str(source.absolute()), f"{version} {benchmark.data.edition}")
        if key not in self._staged:
            self._staged[key] = benchmark.data.stage(source, version)
        return self._staged[key]

    def resolve(
        self,
        benchmark: Benchmark,
        staged: Staged,
        source: Path | None,
        places: Mapping[str, Path],
        home: Home,
    ) -> Staged:
        """Resolve the resources of a dataset's rows."""
        resolve = benchmark.resources.resolve
        assert resolve is not None
        paths = {name: str(place.absolute()) for name, place in places.items()}
        inputs = canonical_json([str(source.absolute()) if source else None, sorted(paths.items())])
        key = (benchmark.name, staged.digest, inputs)
        if key not in self._staged:
            self._staged[key] = resolve(staged, source, places, home)
        return self._staged[key]

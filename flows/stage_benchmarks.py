"""Flow that stages raw benchmark data in the lake and checks it."""

from collections.abc import Mapping
from pathlib import Path

from flows.orchestration.inner_flows import plain_flow
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.registry import BENCHMARKS
from tasks.datasets.catalogue import locate
from tasks.planning.dataset import DatasetCache, require_rows, resolved_data, write_staged
from tasks.storage.home import Home, find_home
from tasks.storage.parquet_store import Lake


def stage_benchmarks(
    home: Home, cache: DatasetCache, benchmark: str, data: str, dataset_version: str | None
) -> dict[str, object]:
    """Stage one dataset in a flow run, and return its counts and digest. See `stage_dataset`.

    The flow is a closure: Prefect stores parameters as JSON, which a cache cannot become.
    """

    @plain_flow(name="stage_benchmarks", flow_run_name="stage {benchmark}")
    def stage(benchmark: str, data: str, dataset_version: str | None) -> dict[str, object]:
        staged, version, digest = stage_dataset(
            benchmark, Path(data), dataset_version, str(home.path), cache=cache
        )
        return {
            "benchmark": benchmark,
            "dataset_version": version,
            "dataset_digest": digest,
            "rows": staged.n_input,
            "staged": len(staged.problems),
            "quarantined": len(staged.quarantined),
        }

    return stage(benchmark, data, dataset_version)


def stage_dataset(
    benchmark: str,
    data: Path,
    dataset_version: str | None,
    home: str | None,
    resources: Mapping[str, str] | None = None,
    cache: DatasetCache | None = None,
) -> tuple[Staged, str, str]:
    """Read raw data and write dialogs, problems and quarantined rows.

    Args:
        benchmark: Name of the benchmark.
        data: Path, or name of a public dataset that was fetched.
        dataset_version: Name of this version of the dataset.
        home: Folder of all data. `$PARLEY_HOME` takes precedence.
        resources: Extra files or images that the rows need, by name. Without them, rows are staged
            unresolved, and each run must name the resources.
        cache: Datasets that were parsed before. None for none.

    Returns:
        The rows, the dataset version and the dataset's digest.

    Raises:
        SourceUnreadable: No row could be staged. The message and the table `quarantine` name the
            faults.
    """
    loaded = BENCHMARKS.load(benchmark)
    data_home = find_home(home)
    located, version = locate(loaded, str(data), dataset_version, data_home)
    source = str(located)
    staged = (
        resolved_data(loaded, source, version, data_home, resources)
        if resources
        else (cache or DatasetCache()).read(loaded, Path(source), version)
    )
    digest = write_staged(staged, loaded.name, version, Lake(data_home.lake))
    return require_rows(staged, source, loaded.name, version), version, digest

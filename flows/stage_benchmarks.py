"""Flow: raw benchmark data into the lake, checked."""

from collections.abc import Mapping
from pathlib import Path

from prefect import flow

from tasks.benchmarks.contract import Staged
from tasks.benchmarks.registry import BENCHMARKS
from tasks.datasets.located import locate
from tasks.planning.dataset import furnished_data, read_raw, require_rows, write_staged
from tasks.storage.home import find_home
from tasks.storage.parquet_store import Lake


@flow(name="stage_benchmarks", flow_run_name="stage {benchmark}", validate_parameters=False)
def stage_benchmarks(
    benchmark: str,
    data: str,
    dataset_version: str | None = None,
    home: str | None = None,
    resources: dict[str, str] | None = None,
) -> dict[str, object]:
    """Stage one dataset; returns its counts and digest. See `stage_dataset`."""
    staged, version, digest = stage_dataset(benchmark, Path(data), dataset_version, home, resources)
    return {
        "benchmark": benchmark,
        "dataset_version": version,
        "dataset_digest": digest,
        "rows": staged.n_input,
        "staged": len(staged.problems),
        "quarantined": len(staged.quarantined),
    }


def stage_dataset(
    benchmark: str,
    data: Path,
    dataset_version: str | None,
    home: str | None,
    resources: Mapping[str, str] | None = None,
) -> tuple[Staged, str, str]:
    """Read raw data and write dialogs, problems and quarantined rows.

    Args:
        data: a path, or the name of a public dataset that was fetched.
        resources: what the rows need beside them; without any, they are staged as they are, and a run has to be given some.

    Returns:
        The rows, the dataset version and the dataset's digest.

    Raises:
        SourceUnreadable: nothing at all could be staged; the message and the table `quarantine` name the faults.
    """
    found = BENCHMARKS.load(benchmark)
    place = find_home(home)
    located, version = locate(found, str(data), dataset_version, place)
    source = str(located)
    staged = (
        furnished_data(found, source, version, place, resources)
        if resources
        else read_raw(found, Path(source), version)
    )
    digest = write_staged(staged, found.name, version, Lake(place.lake))
    return require_rows(staged, source, found.name, version), version, digest

"""Raw data is parsed once a night, and anew in the next."""

from dataclasses import replace
from pathlib import Path

from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.contract import Staged
from tasks.planning.dataset import find_data, read_raw, reading_once
from tasks.storage.parquet_store import Lake


def test_within_a_night_all_see_one_parse_of_the_raw_data(tmp_path: Path) -> None:
    parsed: list[Path] = []

    def stage(source: Path, dataset_version: str) -> Staged:
        parsed.append(source)
        return BENCHMARK.data.stage(source, dataset_version)

    counted = replace(BENCHMARK, data=replace(BENCHMARK.data, stage=stage))
    source = Path(str(BENCHMARK.data.sample))
    for n_nights in (1, 2):
        with reading_once():
            first = find_data(counted, str(source), "current", Lake(tmp_path))
            with reading_once():
                assert read_raw(counted, source, "current") is first
            assert read_raw(counted, source, "v0") is not first
        assert parsed == [source, source] * n_nights

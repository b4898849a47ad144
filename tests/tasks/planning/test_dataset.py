"""Raw data is parsed once a night, and anew in the next."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.benchmarks import program_runs
from tasks.benchmarks.codeif import BENCHMARK, SAMPLE_REPOSITORIES
from tasks.benchmarks.contract import Staged
from tasks.planning.dataset import DatasetCache, find_data, resolved_data
from tasks.storage.files.source_trees import TreeDigests
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.flows.parley_command import parley


def test_within_a_night_all_see_one_parse_of_the_raw_data(tmp_path: Path) -> None:
    parsed: list[Path] = []

    def stage(source: Path, dataset_version: str) -> Staged:
        parsed.append(source)
        return BENCHMARK.data.stage(source, dataset_version)

    counted = replace(BENCHMARK, data=replace(BENCHMARK.data, stage=stage))
    source = Path(str(BENCHMARK.data.sample))
    for n_nights in (1, 2):
        cache = DatasetCache()
        first = find_data(counted, str(source), "current", Lake(tmp_path), cache=cache)
        assert cache.read(counted, source, "current") is first
        assert cache.read(counted, source, "v0") is not first
        assert parsed == [source, source] * n_nights


PROJECTS = Path(str(BENCHMARK.data.bundled[SAMPLE_REPOSITORIES])) / "projects"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose files are read for their digest."""
    found: list[Path] = []

    def counted(folder: Path, packages: str = "") -> TreeDigests:
        found.append(folder)
        return TreeDigests("0")

    monkeypatch.setattr(program_runs, "tree_digests", counted)
    return found


def test_within_a_night_a_tree_is_read_once_for_all_models_and_settings(
    tmp_path: Path, hashed: list[Path]
) -> None:
    home, bundled = Home.at(str(tmp_path / "home")), str(PROJECTS.parent)
    cache = DatasetCache()

    def resolved(data: str, repositories: str) -> Staged:
        places = {"repos": repositories}
        return resolved_data(BENCHMARK, data, SAMPLE_REPOSITORIES, home, places, cache=cache)

    first = resolved(bundled, str(PROJECTS))
    assert resolved(bundled, str(PROJECTS)) is first
    assert len(hashed) == 1
    elsewhere = resolved(bundled, str(tmp_path))
    assert all(dialog.is_sourceless for dialog in elsewhere.dialogs)
    (tmp_path / "data").symlink_to(bundled)
    resolved(str(tmp_path / "data"), str(PROJECTS))
    assert len(hashed) == 2, (
        "a hook may read what lies beside the data, so that each source has its own"
    )


@pytest.mark.parametrize(
    ("budget", "n"),
    [((), 1), (("--budget", "tokens=1000000,then=subsample"), 2)],
    ids=["whole", "subsample"],
)
def test_a_dry_run_of_several_runs_reads_a_tree_once_and_once_more_to_choose_a_subsample(
    tmp_path: Path, hashed: list[Path], budget: tuple[str, ...], n: int
) -> None:
    config = {
        "models": [{"spec": "control:gold"}, {"spec": "control:empty"}],
        "benchmarks": [
            {
                "name": f"codeif.{setting}",
                "dataset_version": SAMPLE_REPOSITORIES,
                "resources": {"repos": str(PROJECTS)},
            }
            for setting in ("static", "two_round")
        ],
    }
    (tmp_path / "night.json").write_text(json.dumps(config), encoding="utf-8")
    done = parley(
        tmp_path / "home",
        "nightly",
        "--config",
        tmp_path / "night.json",
        "--dry-run",
        "--json",
        *budget,
    )
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 4
    assert len(hashed) == n

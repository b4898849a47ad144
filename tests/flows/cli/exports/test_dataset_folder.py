"""`parley export huggingface`: Parquet that any reader loads by the card's own globs, and a card of
plain text.
"""

from pathlib import Path

import pytest
import yaml

from flows.cli.exports.exporting import DATASET_TABLES
from schemas.run import ModelIdentity
from tests.flows.parley_command import parley
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import Run
from warehouse.connect import query
from warehouse.publication.publish import publish

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SmallLake:
    lake = SmallLake(tmp_path_factory.mktemp("dataset") / "home").write_all()
    name = "<script>x</script>\n---\n# owned | a"
    hostile = Run(
        lake.home, ModelIdentity(provider="recorded", name=name, weights_digest="c" * 32), samples=1
    )
    lake.write_model(hostile.subject, None, None)
    lake.write_simple(hostile)
    publish(lake.home)
    return lake


@pytest.fixture(scope="module")
def folder(lake: SmallLake) -> Path:
    out = lake.home.parent / "dataset"
    done = parley(lake.home, "export", "huggingface", "--out", out)
    assert done.code == 0, done.err
    return out


def test_each_table_is_loaded_by_the_globs_of_the_card(lake: SmallLake, folder: Path) -> None:
    import duckdb
    import pyarrow.dataset as ds

    head = yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    assert [one["config_name"] for one in head["configs"]] == list(DATASET_TABLES)
    assert [one["config_name"] for one in head["configs"] if one.get("default")] == ["leaderboard"]
    for one in head["configs"]:
        table, glob = one["config_name"], folder / one["data_files"]
        [[expected]] = query(
            lake.home,
            f"select count(*) from {table} where run_id in (select run_id from leaderboard)",
        )[1]
        assert expected or table in ("judge_verdicts", "forgery_audit")
        found = (
            duckdb.connect().execute("select count(*) from read_parquet(?)", [str(glob)]).fetchall()
        )
        assert found == [(expected,)]
        assert ds.dataset(glob.parent, format="parquet").count_rows() == expected


def test_what_is_missing_stays_missing_and_withheld_runs_are_left_out(
    lake: SmallLake, folder: Path
) -> None:
    import pyarrow.parquet as pq

    scores = pq.read_table(folder / "scores").to_pylist()
    missing = [row for row in scores if row["unscored_reason"] is not None]
    assert missing
    assert all(row["value"] is None for row in missing)
    assert lake.gamma.run_id not in {
        row["run_id"] for row in pq.read_table(folder / "runs").to_pylist()
    }


def test_the_card_has_no_markup_of_a_name(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "<script>" not in card
    assert "\n# owned" not in card
    assert "instruction_accuracy" in card


def test_the_library_of_the_hub_loads_it(folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip(
        "datasets", reason="the library datasets is not installed: make embeddings"
    )
    loaded = datasets.load_dataset(str(folder), "scores", cache_dir=str(tmp_path))
    assert loaded["train"].num_rows > 10


def test_runs_can_be_chosen_and_a_withheld_one_is_refused(lake: SmallLake, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "one"
    assert (
        parley(
            lake.home, "export", "huggingface", "--run", lake.beta.run_id[:10], "--out", out
        ).code
        == 0
    )
    assert {row["run_id"] for row in pq.read_table(out / "turns").to_pylist()} == {lake.beta.run_id}
    refused = parley(
        lake.home, "export", "huggingface", "--run", lake.gamma.run_id, "--out", tmp_path / "two"
    )
    assert (refused.code, "not published" in refused.err) == (2, True)
    again = parley(lake.home, "export", "huggingface", "--out", out)
    assert again.code == 2
    assert "inspect, huggingface" in parley(lake.home, "export", "nothing", "--out", out).err

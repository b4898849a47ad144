"""`parley data`: what there is, how it comes here from a loopback hub, and how other commands find
it by its name.
"""

import json
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.hub_server import Hub, hub_server
from tests.flows.parley_command import parley, started

CSV = "multiIF_20241018.csv"
SAMPLE = (
    files("tasks.benchmarks.unidial") / "sample" / "multi_if" / "multiIF_sample.csv"
).read_bytes()
SWEBENCH = files("tasks.benchmarks.dialogue_swebench") / "sample" / "sample.jsonl"
NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9"}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as served:
        served.files = {CSV: SAMPLE, "README.md": b"# A card\n"}
        yield served


def wait_for(found: Callable[[], list[Path]], limit_s: float = 60.0) -> list[Path]:
    """What is found, once there is something; the limit only ends a hang."""
    deadline = time.monotonic() + limit_s
    while not (there := found()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return there


def record(home: Path, name: str) -> dict[str, object]:
    (found,) = (one for one in parley(home, "data", "--json").json() if one["name"] == name)
    return found


def test_the_table_names_source_licence_and_what_is_not_known(home: Path) -> None:
    printed = parley(home, "data", environ={"COLUMNS": "120"}).out
    for part in (
        "Public datasets of unidial",
        "snap-research/locomo",
        "1,986",
        "CC BY 4.0",
        " – ",
        "not public",
    ):
        assert part in printed
    heads = [line.split() for line in printed.splitlines() if line.split()[:1] == ["dataset"]]
    assert heads
    assert {tuple(head) for head in heads} == {
        ("dataset", "source", "licence", "rows", "size", "sha256", "here")
    }
    known = record(home, "humaneval")
    assert (known["licence"], known["rows"], known["bytes"]) == ("MIT", 164, 44877)
    assert (known["here"], known["staged"], known["fetched"]) == ("absent", 0, None)
    assert record(home, "multi_if")["sha256"] is None


@pytest.mark.slow
def test_a_dataset_is_fetched_once_and_found_by_its_name(home: Path, hub: Hub) -> None:
    got = parley(home, "data", "get", "multi_if", "--json", environ={"HF_ENDPOINT": hub.url}).json()
    assert [(one["name"], one["was_there"], sorted(one["files"])) for one in got] == [
        ("multi_if", False, [CSV])
    ]
    assert (Path(got[0]["folder"]) / CSV).read_bytes() == SAMPLE
    again = parley(home, "data", "get", "unidial/multi_if", environ=NOWHERE)
    assert "multi_if: already here, verified: 1 file" in again.out
    assert "parley run unidial.multi_if --data multi_if --model SPEC" in again.out
    staged = parley(home, "stage", "unidial", "--data", "multi_if", "--json").json()
    assert staged["staged"] > 0
    assert staged["dataset_version"] == "current"
    shown = record(home, "multi_if")
    assert (shown["here"], shown["staged"]) == ("fetched", staged["staged"])
    planned = parley(
        home,
        "run",
        "unidial.multi_if",
        "--data",
        "multi_if",
        "--model",
        "control:empty",
        "--dry-run",
        "--json",
    )
    by_path = (
        "run",
        "unidial.multi_if",
        "--data",
        got[0]["folder"],
        "--model",
        "control:empty",
        "--dry-run",
        "--json",
    )
    assert planned.json() == parley(home, *by_path).json()


@pytest.mark.slow
def test_a_killed_download_goes_on_where_it_stopped(home: Path, hub: Hub) -> None:
    hub.files[CSV], hub.holds_after = SAMPLE * 10_000, 3_000_000
    with started(home, "data", "get", "multi_if", environ={"HF_ENDPOINT": hub.url}) as process:
        assert hub.held.wait(60)
        (partial,) = wait_for(
            lambda: [
                path for path in home.rglob("*.csv.partial") if path.stat().st_size >= 1_000_000
            ]
        )
        process.kill()
        process.wait(60)
    n_left = partial.stat().st_size
    (got,) = parley(
        home, "data", "get", "multi_if", "--json", environ={"HF_ENDPOINT": hub.url}
    ).json()
    assert (Path(got["folder"]) / CSV).read_bytes() == SAMPLE * 10_000
    assert [span for _, span in hub.downloads()] == ["", f"bytes={n_left}-"]


@pytest.mark.slow
def test_a_night_finds_a_dataset_by_its_name(home: Path, hub: Hub, tmp_path: Path) -> None:
    parley(home, "data", "get", "multi_if", environ={"HF_ENDPOINT": hub.url})
    config = {
        "models": [{"spec": "control:empty"}],
        "benchmarks": [{"name": "unidial.multi_if", "data": "multi_if"}],
    }
    (tmp_path / "night.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = parley(home, "nightly", "--config", tmp_path / "night.yaml", "--dry-run", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "unidial.multi_if" in done.out


def test_without_a_network_a_command_says_which_file_to_bring_and_a_brought_one_is_taken(
    home: Path,
) -> None:
    done = parley(
        home,
        "data",
        "get",
        "swebench_verified",
        environ={**NOWHERE, "PARLEY_DATA": str(home / "elsewhere")},
    )
    assert done.code == 1
    place = home / "elsewhere" / "dialogue_swebench" / "swebench_verified"
    for part in (
        "127.0.0.1:9",
        f"put these files into {place}:",
        "test-00000-of-00001.parquet",
        "--data swebench_verified",
    ):
        assert part in done.err
    shown = parley(home, "data", "show", "bigcodebench")
    assert "put these files into" in shown.out
    assert (
        "v0.1.4-00000-of-00001.parquet (2,362,110 bytes, 1,140 rows, sha256 d9a49658" in shown.out
    )
    folder = home / "data" / "unidial" / "multi_if"
    folder.mkdir(parents=True)
    (folder / CSV).write_bytes(SAMPLE)
    assert parley(home, "stage", "unidial", "--data", "multi_if", "--json").json()["staged"] > 0


def test_routes_of_a_dataset_are_shown_without_its_files_and_without_a_network(home: Path) -> None:
    printed = parley(
        home, "data", "show", "swebench_verified", "--routes", environ=NOWHERE | {"COLUMNS": "120"}
    ).out
    for part in (
        "django/django",
        "3.0 to 3.2",
        "bin/test -C --verbose",
        "500 rows: 500 have a runner",
        "public web pages",
    ):
        assert part in printed
    routes = parley(
        home, "data", "show", "swebench_verified", "--routes", "--json", environ=NOWHERE
    ).json()
    assert sum(len(route["problem_ids"]) for route in routes) == 500
    assert {route["dataset"] for route in routes} == {"dialogue_swebench/swebench_verified"}


def test_routes_come_from_the_rows_where_the_file_is_here(home: Path) -> None:
    """The rows are a bundled instance under SymPy's name, and one whose tests no known runner
    runs.
    """
    row = json.loads(SWEBENCH.read_text(encoding="utf-8").splitlines()[0])
    row |= {
        "repo": "sympy/sympy",
        "version": "1.9",
        "FAIL_TO_PASS": '["test_a"]',
        "PASS_TO_PASS": "[]",
    }
    folder = home / "data" / "dialogue_swebench" / "swebench_verified"
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist([row, row | {"instance_id": "b", "repo": "a/b"}])
    pq.write_table(table, folder / "test-00000-of-00001.parquet")
    routes = parley(
        home, "data", "show", "swebench_verified", "--routes", "--json", environ=NOWHERE
    ).json()
    assert [(route["runner"], route["python"], len(route["problem_ids"])) for route in routes] == [
        ("", "", 1),
        ("sympy", "3.9", 1),
    ]
    assert [reason.partition(":")[0] for reason in routes[0]["exceptions"].values()] == [
        "runner_unknown"
    ]
    needs_files = parley(
        home, "data", "show", "swebench_verified_mini", "--routes", environ=NOWHERE
    )
    assert needs_files.code == 1
    assert "parley data get dialogue_swebench/swebench_verified_mini" in needs_files.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("data", "show", "humaneval", "--routes"), 2, ["graded in the same way", "--routes"]),
        (
            ("data", "get", "longmemevl"),
            2,
            ["unknown dataset 'longmemevl'", "Do you mean longmemeval?", "`parley data`"],
        ),
        (
            ("data", "get", "talk2code/talk2code"),
            2,
            ["cannot be fetched", "not public", "parley build talk2code-dialogues"],
        ),
        (
            ("stage", "unidial", "--data", "mathchat"),
            2,
            ["unidial/mathchat is not on this machine", "`parley data get mathchat`"],
        ),
        (
            ("stage", "unidial", "--data", "mathcat"),
            2,
            ["unknown file, folder or dataset 'mathcat'", "Do you mean mathchat?"],
        ),
        (
            ("run", "unidial.multi_if", "--model", "control:empty"),
            2,
            ["no data of unidial", "`parley data get multi_if` fetches it", "--data multi_if"],
        ),
        (
            ("run", "codeif.static", "--model", "control:gold"),
            2,
            ["no data of codeif", "`parley data get codeif_bench`", "--data DIR"],
        ),
    ],
)
def test_a_mistake_gets_one_message(
    home: Path, arguments: tuple[str, ...], code: int, said: list[str]
) -> None:
    done = parley(home, *arguments)
    assert done.code == code, done.err
    assert [part for part in said if part not in done.err] == []


def test_data_of_another_setting_names_the_dataset_that_is_wanted(home: Path) -> None:
    folder = home / "data" / "unidial" / "multi_if"
    folder.mkdir(parents=True)
    (folder / CSV).write_bytes(SAMPLE)
    done = parley(
        home, "run", "unidial.personamem", "--data", "multi_if", "--model", "control:empty"
    )
    assert done.code == 2
    assert "`parley data get personamem` (or personamem_128k, personamem_1m) fetches it" in done.err

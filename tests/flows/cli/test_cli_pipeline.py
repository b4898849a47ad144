"""The whole path through the command line, with controls and recordings on the bundled sample."""

import json
from pathlib import Path

import pytest

from tests.fixtures.model_server import model_server
from tests.flows.parley_command import PROFILED, SAMPLE, ask, imported, parley, parley_process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]


@pytest.fixture(scope="module")
def home(standing_home: Path) -> Path:
    """A home in which gold and empty were run on the sample."""
    for model in ("control:gold", "control:empty"):
        line = parley(standing_home, *SAMPLE, "--model", model, "--json").json()
        assert (line["episodes"], line["owed"], line["published"]) == (8, 0, True)
    return standing_home


def test_gold_passes_everything_and_empty_nothing(home: Path) -> None:
    rows = ask(home, "SELECT model, metric, mean, n, n_unscored FROM leaderboard")
    found = {(r["model"], r["metric"]): (r["mean"], r["n_unscored"]) for r in rows}
    assert found["control:gold", "instruction_accuracy"] == (1.0, 0)
    assert found["control:gold", "conversation_accuracy_strict"] == (1.0, 0)
    assert found["control:gold", "instruction_forgetting_ratio"] == (0.0, 0)
    assert found["control:empty", "instruction_accuracy"] == (0.0, 0)
    assert found["control:empty", "conversation_accuracy_fraction"] == (0.0, 0)
    assert found["control:empty", "instruction_forgetting_ratio"] == (None, 0)


def test_a_run_s_json_holds_what_its_table_shows(home: Path) -> None:
    line = parley(home, *SAMPLE, "--model", "control:empty", "--json").json()
    columns = "metric, mean, ci_low, ci_high, n, n_unscored, n_not_applicable"
    shown = ask(
        home, f"SELECT {columns} FROM leaderboard WHERE run_id = '{line['run_id']}' ORDER BY metric"
    )
    assert line["results"] == shown
    assert {one["metric"]: one["mean"] for one in shown}["instruction_forgetting_ratio"] is None


def test_a_finished_run_is_not_done_again(home: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (home / "lake").rglob("*.parquet")}
    line = parley(
        home,
        *SAMPLE,
        "--model",
        "control:gold",
        "--json",
        environ={"PREFECT_API_URL": "http://127.0.0.1:9/api"},
    ).json()
    assert (line["model_calls"], line["owed"], line["published"]) == (0, 0, True)
    assert {path: path.stat().st_mtime_ns for path in (home / "lake").rglob("*.parquet")} == before


def test_a_finished_run_imports_only_what_tells_that_it_is(home: Path) -> None:
    found = imported(parley_process(home, *SAMPLE, "--model", "control:gold", environ=PROFILED))
    assert {"pyarrow", "duckdb", "rich"} <= found
    assert (
        found
        & {
            "prefect",
            "distributed",
            "great_expectations",
            "openai",
            "aiohttp",
            "asyncio",
            "pandas",
            "scipy",
        }
        == set()
    )


def test_the_contracts_columns_are_there(home: Path) -> None:
    ask(
        home,
        (
            "SELECT run_id, benchmark, model, episode_id, problem_id, sample, turn, role, "
            "content, input_tokens FROM turns LIMIT 1"
        ),
    )
    ask(home, "SELECT output_tokens, latency_s, finish_reason FROM turns LIMIT 1")
    verdicts = (
        "run_id, benchmark, model, episode_id, problem_id, sample, turn, instruction_id, "
        "outcome, detail, duration_s"
    )
    assert ask(home, f"SELECT {verdicts} FROM test_verdicts LIMIT 1")
    scores = (
        "run_id, benchmark, model, episode_id, problem_id, sample, turn, metric, value, "
        "unscored_reason"
    )
    assert ask(home, f"SELECT {scores} FROM scores LIMIT 1")
    turns = (
        "run_id, benchmark, model, setting, level, axis, turn, ia, ca_strict, ca_fraction, ifr, "
        "n, n_unscored"
    )
    assert {row["axis"] for row in ask(home, f"SELECT {turns} FROM codeif_turns")} == {
        "turn",
        "strategy_slot",
    }
    assert ask(home, "SELECT * FROM codeif_strategies")
    assert ask(home, "SELECT * FROM costs")


def test_verdicts_exist_for_each_instruction_so_far(home: Path) -> None:
    rows = ask(
        home,
        "SELECT turn, count(*) n FROM test_verdicts WHERE model = 'control:gold' AND "
        "problem_id = 'function/1'"
        " GROUP BY turn ORDER BY 1",
    )
    assert [row["n"] for row in rows] == [
        1,
        2,
        3,
        1,
    ]  # the last is Functionality Extension: its own tests only


def test_a_transcript_shows_prompts_answers_and_verdicts(home: Path) -> None:
    episode = parley(home, "list", "episodes", "--first").out.strip()
    shown = parley(home, "show", episode[:16])
    assert shown.code == 0
    assert "turn 1 · user" in shown.out
    assert "[passed] base" in shown.out or "[failed] base" in shown.out
    missing = parley(home, "show", "zzzz")
    assert missing.code == 2
    assert "no episode begins with 'zzzz'" in missing.err


@pytest.mark.long
def test_an_exported_recording_runs_to_the_same_verdicts(home: Path, tmp_path: Path) -> None:
    run = ask(home, "SELECT run_id FROM runs WHERE model = 'control:gold'")[0]["run_id"]
    recording = tmp_path / "gold.jsonl.gz"
    assert parley(home, "export", "recording", "--run", run[:10], "--out", recording).code == 0
    again = parley(home, *SAMPLE, "--model", f"recorded:{recording}", "--json").json()
    assert again["model"] == "recorded:gold"
    assert again["run_id"] != run
    sql = (
        "SELECT problem_id, turn, instruction_id, outcome FROM test_verdicts WHERE run_id = '{}' "
        "ORDER BY ALL"
    )
    assert ask(home, sql.format(again["run_id"])) == ask(home, sql.format(run))


def test_a_recording_without_an_answer_withholds_the_run_and_nothing_becomes_zero(
    home: Path, tmp_path: Path
) -> None:
    run = ask(home, "SELECT run_id FROM runs WHERE model = 'control:gold'")[0]["run_id"]
    whole = tmp_path / "whole.jsonl"
    parley(home, "export", "recording", "--run", run, "--out", whole)
    lines = whole.read_text().splitlines()
    cut = tmp_path / "cut.jsonl"
    cut.write_text(
        "\n".join(
            line
            for line in lines
            if not (
                json.loads(line)["problem_id"] == "function/1" and json.loads(line)["turn"] == 2
            )
        )
    )
    done = parley(home, *SAMPLE, "--model", f"recorded:{cut}")
    assert done.code == 3
    assert "1 of 8 episodes" in done.err
    assert "max_fault_share" in done.err
    assert ask(home, "SELECT count(*) n FROM leaderboard WHERE model = 'recorded:cut'") == [
        {"n": 0}
    ]
    assert ask(home, "SELECT status FROM runs WHERE model = 'recorded:cut'") == [
        {"status": "withheld"}
    ]
    published = parley(home, *SAMPLE, "--model", f"recorded:{cut}", "--max-fault-share", "1")
    assert published.code == 0, published.err
    row = ask(
        home,
        (
            "SELECT mean, n, n_unscored FROM leaderboard WHERE model = 'recorded:cut' AND metric "
            "= 'instruction_accuracy'"
        ),
    )[0]
    assert row["mean"] == 1.0
    assert row["n_unscored"] == 3  # turns 2, 3 and 4 of that task
    gold = ask(
        home,
        (
            "SELECT n FROM leaderboard WHERE model = 'control:gold' AND metric = "
            "'instruction_accuracy'"
        ),
    )[0]
    assert row["n"] + row["n_unscored"] == gold["n"]


@pytest.mark.long
def test_a_run_can_be_grown(home: Path) -> None:
    first = parley(
        home,
        *SAMPLE,
        "--model",
        "control:gold",
        "--option",
        "history=upstream_v0",
        "--limit",
        "2",
        "--json",
    ).json()
    assert first["episodes"] == 2
    grown = parley(
        home, *SAMPLE, "--model", "control:gold", "--option", "history=upstream_v0", "--json"
    ).json()
    assert (grown["run_id"], grown["episodes"]) == (first["run_id"], 8)
    smaller = parley(
        home,
        *SAMPLE,
        "--model",
        "control:gold",
        "--option",
        "history=upstream_v0",
        "--limit",
        "1",
        "--json",
    ).json()
    assert (smaller["episodes"], smaller["owed"]) == (8, 0)


@pytest.mark.long
def test_samples_share_what_a_smaller_run_has_paid_for(home: Path) -> None:
    line = parley(home, *SAMPLE, "--model", "control:empty", "--samples", "2", "--json").json()
    assert line["episodes"] == 16
    one = ask(home, "SELECT run_id FROM runs WHERE model = 'control:empty' AND samples = 1")[0][
        "run_id"
    ]
    assert (line["n_reused"], line["reused_from"], line["n_new"], line["programs_run"]) == (
        8,
        {one: 8},
        8,
        0,
    )
    assert [(d["field"], d["reruns"]) for d in line["why"]] == [("samples", "dialogues")]
    night = parley(home, "report", "--night", line["night_id"], "--json").json()
    assert [(run["run_id"], run["n_reused"], run["n_new"]) for run in night["runs"]] == [
        (line["run_id"], 8, 8)
    ]
    sql = (
        "SELECT n_reused, n_new, why[1].field AS field FROM night_work WHERE night_id = "
        f"'{line['night_id']}'"
    )
    assert ask(home, sql) == [{"n_reused": 8, "n_new": 8, "field": "samples"}]
    told = parley(home, "report")
    assert "8 of 16 reused (8 paid by run" in told.out
    assert "in samples: '1' -> '2'" in told.out
    shared = (
        "SELECT count(*) n FROM run_episodes a JOIN run_episodes b USING (episode_id)"
        f" WHERE a.run_id = '{one}' AND b.run_id = '{line['run_id']}'"
    )
    assert ask(home, shared) == [{"n": 8}]
    paid = f"SELECT count(DISTINCT episode_id) n FROM turns WHERE run_id = '{line['run_id']}'"
    assert ask(home, paid) == [{"n": 16}]


@pytest.mark.long
def test_a_price_stated_later_counts_and_one_left_out_takes_none_away(home: Path) -> None:
    with model_server() as server:
        run = (
            *SAMPLE,
            "--model",
            f"openai:mock@{server.base_url}",
            "--revision",
            "1",
            "--limit",
            "1",
        )
        parley(home, *run, "--json").json()
        sql = "SELECT usd FROM costs WHERE model LIKE 'openai:%'"
        assert ask(home, sql) == [{"usd": None}]
        calls = len(server.bodies)
        assert parley(home, *run, "--price", "1", "2", "--json").json()["model_calls"] == 0
        usd = ask(home, sql)[0]["usd"]
        assert usd > 0
        assert parley(home, *run, "--seed", "5", "--json").json()["owed"] == 0
        assert [row["usd"] for row in ask(home, sql + " ORDER BY usd")] == [usd, usd]
        assert len(server.bodies) == 2 * calls


@pytest.mark.long
def test_a_warehouse_older_than_the_lake_is_published_again(home: Path) -> None:
    run = (*SAMPLE, "--model", "control:gold", "--seed", "21", "--json")
    sql = "SELECT n FROM leaderboard WHERE metric = 'instruction_accuracy' AND run_id = '{}'"
    before = (home / "warehouse.duckdb").read_bytes()
    line = parley(home, *run, "--limit", "2").json()
    shown = ask(home, sql.format(line["run_id"]))
    assert shown[0]["n"] > 0
    (home / "warehouse.duckdb").write_bytes(
        before
    )  # as if killed between the run's end and its publication
    assert ask(home, sql.format(line["run_id"])) == []
    parley(home, *run, "--limit", "2").json()
    assert ask(home, sql.format(line["run_id"])) == shown


@pytest.mark.long
def test_a_damaged_or_lost_part_of_a_finished_run_is_made_anew(home: Path) -> None:
    run = (*SAMPLE, "--model", "control:gold", "--seed", "22", "--limit", "2", "--json")
    run_id = parley(home, *run).json()["run_id"]
    sql = (
        "SELECT problem_id, turn, instruction_id, outcome FROM test_verdicts WHERE run_id = "
        f"'{run_id}' ORDER BY ALL"
    )
    whole = ask(home, sql)
    (part,) = (home / "lake" / "test_verdicts").rglob(f"run={run_id}/part-*.parquet")
    (lost,) = (home / "lake" / "scores").rglob(f"run={run_id}/part-*.parquet")
    part.write_bytes(part.read_bytes()[:-30])
    lost.unlink()
    again = parley(home, *run).json()
    assert again["published"] is True
    assert (again["n_reused"], again["n_new"], again["reused_from"]) == (2, 0, {run_id: 2})
    found = parley(home, "why-rerun", run_id, "--json").json()
    assert [(d["field"], d["reruns"]) for d in found] == [
        ("files.test_verdicts", "tests"),
        ("files.scores", "scores"),
    ]
    parley(home, "publish", "--rebuild")
    assert ask(home, sql) == whole


def test_why_rerun_names_the_field(home: Path) -> None:
    runs = {
        r["model"]: r["run_id"]
        for r in ask(
            home, "SELECT model, run_id FROM runs WHERE samples = 1 ORDER BY started_at DESC"
        )
    }
    found = parley(home, "why-rerun", runs["control:gold"], runs["control:empty"], "--json").json()
    assert "subject.name" in {d["field"] for d in found}


def test_a_dry_run_counts_calls_and_starts_nothing(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other"
    nobody = ("--model", "openai:m@http://127.0.0.1:9/v1", "--dry-run")
    line = parley(elsewhere, *SAMPLE, *nobody, "--json", "--price", "1", "2").json()
    assert (line["episodes"], line["owed"], line["calls"]) == (8, 8, 38)
    assert line["usd"] > 0
    shown = parley(elsewhere, *SAMPLE, *nobody).out.partition("The number of calls")[0]
    assert shown.split()[-9:] == [
        "codeif.static",
        "openai:m",
        "8",
        "8",
        "38",
        *(str(line[f"{way}_tokens"]) for way in ("input", "output")),
        "no",
        "price",
    ]
    control = parley(elsewhere, *SAMPLE, "--model", "control:gold", "--dry-run", "--json").json()
    assert (control["owed"], control["calls"], control["usd"]) == (8, 0, 0), (
        "a control costs nothing"
    )
    assert max(map(len, shown.splitlines())) <= 100
    assert not elsewhere.exists()
    assert (
        parley(home, *SAMPLE, "--model", "control:gold", "--dry-run", "--json").json()["calls"] == 0
    )


def test_rebuilding_from_parquet_gives_the_same_warehouse(home: Path) -> None:
    tables = [row["name"] for row in ask(home, "SHOW TABLES") if not row["name"].startswith("_")]

    def contents() -> dict[str, list[str]]:
        return {
            t: sorted(json.dumps(row, sort_keys=True) for row in ask(home, f"SELECT * FROM {t}"))
            for t in tables
        }

    incremental = contents()
    assert parley(home, "publish", "--rebuild", "--json").json()["runs_loaded"] > 0
    assert contents() == incremental


def test_quality_checks_and_docs_are_kept(home: Path) -> None:
    tables = {
        r["table_name"]
        for r in ask(home, "SELECT DISTINCT table_name FROM quality_checks WHERE success")
    }
    assert tables == {"dialogs", "problems", "episodes", "test_verdicts", "forgery_audit", "scores"}
    [run] = ask(home, "SELECT docs_path FROM runs WHERE model = 'control:gold' LIMIT 1")
    page = (home / run["docs_path"]).read_text()
    assert "test_verdicts.html" in page


def test_an_unisolated_run_must_be_asked_for_and_every_table_says_so(home: Path) -> None:
    done = parley(home, *SAMPLE, "--model", "control:gold", "--sandbox", "none", "--limit", "1")
    assert done.code == 0, done.err
    assert "NOT ISOLATED" in done.out
    for table in ("leaderboard", "codeif_turns", "codeif_strategies", "costs", "runs"):
        assert ask(home, f"SELECT DISTINCT isolated FROM {table} WHERE sandbox = 'none'") == [
            {"isolated": False}
        ], table

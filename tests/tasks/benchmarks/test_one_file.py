"""Benchmarks in one file: staged, played, scored, and refused with their reasons."""

import json
from pathlib import Path

import pytest

from schemas.errors import ConfigError, UnknownName
from tasks.benchmarks import registry
from tasks.planning.request import BenchmarkRequest
from tests.flows.parley_command import parley_process
from tests.own_files import ROOT

EXAMPLES = ROOT / "docs" / "examples"
SETTINGS = ("full", "concat", "sharded", "recap", "snowball")
JUDGED = '''
"""A benchmark whose answers a judge rates."""

from tasks.benchmarks.one_file import Item, benchmark


@benchmark("poems", judge=lambda asked, answer, reference: f"Rate this poem. Asked: {asked} Poem: {answer}")
def POEMS(row):
    return Item(row["id"], [row["topic"]], reference="roses are red")
'''


@pytest.fixture(autouse=True)
def forget_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.FILES_VARIABLE, "")


def test_an_example_is_short_and_its_bad_row_is_quarantined() -> None:
    assert len((EXAMPLES / "sums.py").read_text().splitlines()) <= 35
    name = registry.named(str(EXAMPLES / "sums.py"))
    staged = registry.load(name).data.stage(EXAMPLES / "sums.jsonl", "current")
    assert [problem.problem_id for problem in staged.problems] == ["sum", "product"]
    assert [(row.source_line, row.reason) for row in staged.quarantined] == [(3, "missing_field")]
    assert (name in registry.names(), BenchmarkRequest(name=f"{EXAMPLES}/sums.py:chat").name) == (
        True,
        "sums.chat",
    )


def test_five_settings_say_the_same_shards() -> None:
    benchmark = registry.load(registry.named(str(EXAMPLES / "lost_in_conversation.py")))
    staged = benchmark.data.stage(EXAMPLES / "lost_in_conversation.jsonl", "current")
    assert (len(staged.problems), len(staged.dialogs), staged.quarantined) == (12, 60, ())
    rows = {
        row["id"]: row
        for row in map(
            json.loads, (EXAMPLES / "lost_in_conversation.jsonl").read_text().splitlines()
        )
    }
    for setting in SETTINGS:
        played = [dialog for dialog in staged.dialogs if benchmark.data.plays(setting, dialog)]
        assert len(played) == 12
        for dialog in played:
            texts, row = (
                [turn.content or "" for turn in dialog.turns if turn.content],
                rows[dialog.problem_id],
            )
            rounds = {"full": 1, "concat": 1, "sharded": 4, "recap": 5, "snowball": 4}[setting]
            assert len(texts) == rounds
            if setting == "full":
                assert texts == [row["instruction"]]
            else:
                assert all(any(shard in text for text in texts) for shard in row["shards"])
            if setting in ("concat", "recap", "snowball"):
                assert all(shard in texts[-1] for shard in row["shards"])
            if setting == "sharded":
                assert texts == row["shards"]


@pytest.mark.parametrize(
    ("answer", "reference", "value"),
    [
        ("It is 63.", "63", 1),
        ("12 trays, so 1,063", "1063", 1),
        ("no number", "63", 0),
        ("63, or 64", "63", 0),
        ("-5.50", "-5.5", 1),
    ],
)
def test_the_last_number_counts(answer: str, reference: str, value: float) -> None:
    from tasks.metrics import registry as metrics

    registry.load(registry.named(str(EXAMPLES / "lost_in_conversation.py")))
    assert metrics.load("final_number")(answer, reference) == value


def test_files_that_cannot_be_taken_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        registry.named(str(tmp_path / "absent.py"))
    (tmp_path / "codeif.py").touch()
    with pytest.raises(ConfigError, match="name 'codeif' already"):
        registry.named(str(tmp_path / "codeif.py"))
    (tmp_path / "other.py").write_text(JUDGED)
    with pytest.raises(
        ConfigError, match="must offer one benchmark, of the name 'other'; it offers poems"
    ):
        registry.load(registry.named(str(tmp_path / "other.py")))
    with pytest.raises(UnknownName):
        registry.load(registry.named("neither"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "n_turns"), [("sums.py", 2), ("lost_in_conversation.py:snowball", 4)]
)
def test_gold_passes_and_empty_fails(tmp_path: Path, file: str, n_turns: int) -> None:
    for model, value in (("control:gold", 1.0), ("control:empty", 0.0)):
        line = parley_process(
            tmp_path, "run", str(EXAMPLES / file), "--model", model, "--json"
        ).json()
        assert {result["mean"] for result in line["results"]} == {value}
        assert line["n_unscored"] == 0
    assert parley_process(tmp_path, "report").code == 0, "also where the file is not named"
    rows = parley_process(
        tmp_path, "sql", "SELECT DISTINCT max(turn) AS n FROM turns GROUP BY episode_id", "--json"
    ).json()
    assert rows == [{"n": n_turns}]
    groups = "SELECT axis, count(*) AS n, min(mean) AS low, max(mean) AS high FROM results WHERE metric IN"
    rows = parley_process(
        tmp_path,
        "sql",
        f"{groups} ('unit_tests', 'final_number') GROUP BY axis ORDER BY axis",
        "--json",
    ).json()
    assert {row["axis"] for row in rows} == {"all", "level", "turn"}
    assert {(row["low"], row["high"]) for row in rows} == {(0.0, 1.0)}, (
        "rows of both models, without any groups.sql"
    )


@pytest.mark.slow
def test_a_judge_rates_answers(tmp_path: Path) -> None:
    (tmp_path / "poems.py").write_text(JUDGED)
    (tmp_path / "poems.jsonl").write_text('{"id": "1", "topic": "Write a poem about roses."}\n')
    said = {
        "benchmark": "poems",
        "rubric": "poems_rating",
        "problem_id": "1",
        "turn": 1,
        "sample": 0,
    }
    (tmp_path / "said.jsonl").write_text(
        json.dumps({**said, "content": '{"reason": "plain", "rating": 4}'}) + "\n"
    )
    line = parley_process(
        tmp_path,
        "run",
        str(tmp_path / "poems.py"),
        "--model",
        "control:gold",
        "--judge",
        f"recorded:{tmp_path}/said.jsonl",
        "--json",
    ).json()
    assert [(result["metric"], result["mean"]) for result in line["results"]] == [
        ("judged_rating", 0.75)
    ]

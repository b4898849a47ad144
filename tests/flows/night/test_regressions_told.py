"""A regression is told once: by the night whose publication brought it, or by the next one if that night came to nothing."""

import json
from pathlib import Path

import duckdb
import pytest
import yaml

from flows.night.telling.notify import Notify, begin_telling, tell_regressions
from flows.night.telling.regressions import regressions
from flows.text.comparison import comparison_markdown
from flows.text.results import compared_rows
from tasks.storage.home import Home
from tests.fixtures.post_box import PostBox, post_box
from tests.flows.parley_command import parley
from tests.warehouse.comparison.checkpoints import CheckpointRun, checkpoint, empty_lake, judge_says, passing, rule, write
from tests.warehouse.small_run import IA
from warehouse.publication.publish import publish

NOTIFY = Notify(webhook_env="NIGHT_WEBHOOK")


@pytest.fixture
def made(tmp_path: Path) -> Home:
    return Home(empty_lake(tmp_path / "made"))


def ran(home: Home, name: str, n_passed: int, night: int, *, is_judged: bool = False) -> CheckpointRun:
    run = checkpoint(home.path, name, is_judged=is_judged)
    write(run, passing(n_passed), night)
    rule(run)
    return run


def published(home: Home) -> None:
    publish(home.path, directions={IA: "higher"})


def a_night(home: Home, notify: Notify | None = NOTIFY) -> None:
    begin_telling(notify, home)
    published(home)
    tell_regressions(notify, home)


def told(box: PostBox) -> list[str]:
    """Lines of the messages since the last look."""
    lines = [line for word in box.came for line in word["text"].splitlines()]
    box.came.clear()
    return lines


def test_a_home_that_compares_nothing_has_no_regressions(home: Path) -> None:
    assert regressions(Home(home)) == ()
    home.mkdir()
    with duckdb.connect(str(home / "warehouse.duckdb")) as warehouse:
        warehouse.execute("CREATE TABLE runs (run_id varchar)")
    assert regressions(Home(home)) == ()


@pytest.mark.slow
def test_a_regression_is_told_once_whichever_run_a_night_lists(made: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(made, "step-1000", 18, 1)
    ran(made, "step-2000", 10, 2)
    a_night(made, notify=None)
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        ran(made, "step-3000", 10, 3)
        a_night(made)
        assert told(box) == [], "step-2000 was known to be worse before anybody was to be told"
        ran(made, "step-4000", 1, 4)
        a_night(made)
        [line] = told(box)
        assert line == (f"codeif.static: vllm:/models/step-4000 lost on {IA} against vllm:/models/step-3000: 0.500 → 0.050")
        a_night(made)
        assert told(box) == [], "an unchanged night has no news"
        ran(made, "step-1500", 20, 5)
        a_night(made)
        [line] = told(box)
        assert "step-2000 lost on" in line, "a checkpoint that fills in makes a regression of a run of another night"
        assert line.endswith("against vllm:/models/step-1500: 1.000 → 0.500")
        a_night(made)
        assert told(box) == []


@pytest.mark.slow
def test_word_that_was_not_sent_is_sent_by_the_next_night(made: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(made, "step-1000", 18, 1)
    a_night(made)
    ran(made, "step-2000", 10, 2)
    begin_telling(NOTIFY, made)
    published(made)  # and the night is killed
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        box.status = 503
        a_night(made)
        assert len(told(box)) == 1
        box.status = 200
        a_night(made)
        assert len(told(box)) == 1, "the place took nothing the last time"
        a_night(made)
        assert told(box) == []


@pytest.mark.slow
def test_each_addressee_is_told(made: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    others = Notify(webhook_env="OTHER_WEBHOOK")
    with post_box() as box, post_box() as other_box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        monkeypatch.setenv("OTHER_WEBHOOK", other_box.url)
        ran(made, "step-1000", 18, 1)
        for notify in (NOTIFY, others):
            a_night(made, notify)
        ran(made, "step-2000", 10, 2)
        for notify in (NOTIFY, others, others, Notify(events=("failure",), webhook_env="NIGHT_WEBHOOK")):
            a_night(made, notify)
        assert (len(told(box)), len(told(other_box))) == (1, 1)


@pytest.mark.slow
def test_a_moved_judge_is_named_beside_the_model_that_seems_worse(made: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(made, "step-1000", 18, 1, is_judged=True)
    judge_says(made.path, 1, [1, 1, 1])
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        a_night(made)
        new = ran(made, "step-2000", 10, 2, is_judged=True)
        judge_says(made.path, 2, [1, 0, 0.5])
        a_night(made)
        [word] = box.came
    assert word["title"] == "Parley: 1 regression, 1 of them beside a moved judge"
    assert word["text"].endswith("0.900 → 0.500; the judge moved, too: 2 of 3 judgements")
    table = comparison_markdown(compared_rows(made, [new.run_id])).splitlines()
    assert table[0].endswith("| event | judgements moved |")
    assert table[2].endswith("| regression | 2 of 3 (-0.5) |")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_a_night_tells_what_it_brings_and_no_more(standing_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three checkpoints: the second is worse than the first, which only the first night tells."""
    sample = ("codeif.static", "--dataset-version", "sample")
    run = parley(standing_home, "run", *sample, "--model", "control:gold", "--json").json()["run_id"]
    assert parley(standing_home, "export", "recording", "--run", run, "--out", tmp_path / "gold.jsonl").code == 0
    right = [json.loads(line) for line in (tmp_path / "gold.jsonl").read_text().splitlines()]
    wrong = [answer | {"content": "I would rather not."} for answer in right]
    for step, answers in enumerate((right, wrong, wrong[::-1]), start=1):
        (tmp_path / f"step-{step}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in answers), encoding="utf-8")

    def night(n: int) -> None:
        config = {
            "workers": 1,
            "models": [{"spec": f"recorded:step-{step}.jsonl", "family": "tuned"} for step in range(1, n + 1)],
            "benchmarks": [{"name": "codeif.static", "dataset_version": "sample"}],
            "notify": {"webhook_env": "NIGHT_WEBHOOK"},
        }
        (tmp_path / "night.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        assert parley(standing_home, "nightly", "--config", tmp_path / "night.yaml").code == 0

    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        night(2)
        lines = told(box)
        assert lines
        assert all("recorded:step-2 lost on" in line for line in lines)
        night(3)
        assert told(box) == []

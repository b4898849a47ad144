"""An event is reported once: by the night whose publication brought it, or by the next one if that
night came to nothing.
"""

import json
import re
from pathlib import Path

import duckdb
import pytest
import yaml

from flows.night.reporting.destinations import Notify
from flows.night.reporting.events import find_events
from flows.night.reporting.notifications import begin_event_record, report_events, report_summary
from flows.text.comparison import comparison_markdown
from flows.text.results import compared_rows
from tasks.storage.home import Home
from tests.fixtures.post_box import PostBox, post_box
from tests.flows.parley_command import parley
from tests.warehouse.comparison.checkpoints import (
    CheckpointRun,
    checkpoint,
    empty_lake,
    judge_says,
    passing,
    rule,
    write,
)
from tests.warehouse.small_run import IA
from warehouse.publication.publish import publish

NOTIFY = Notify(webhook_env="NIGHT_WEBHOOK")


@pytest.fixture
def made(tmp_path: Path) -> Home:
    return Home(empty_lake(tmp_path / "made"))


def ran(
    home: Home, name: str, n_passed: int, night: int, *, is_judged: bool = False
) -> CheckpointRun:
    run = checkpoint(home.path, name, is_judged=is_judged)
    write(run, passing(n_passed), night)
    rule(run)
    return run


def published(home: Home) -> None:
    publish(home.path, directions={IA: "higher"}, judged={IA})


def a_night(home: Home, notify: Notify | None = NOTIFY) -> None:
    if notify is not None:
        begin_event_record(notify, home)
    published(home)
    if notify is not None:
        report_events(notify, home)


def told(box: PostBox) -> list[str]:
    """Lines of the messages since the last look."""
    lines = [line for word in box.came for line in word["text"].splitlines()]
    box.came.clear()
    return lines


def test_a_home_that_compares_nothing_has_no_regressions(home: Path) -> None:
    assert not find_events(Home(home)).keys
    home.mkdir()
    with duckdb.connect(str(home / "warehouse.duckdb")) as warehouse:
        warehouse.execute("CREATE TABLE runs (run_id varchar)")
    assert not find_events(Home(home)).keys


@pytest.mark.slow
def test_a_regression_is_told_once_whichever_run_a_night_lists(
    made: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        assert re.fullmatch(
            rf"vllm:/models/step-4000 · codeif.static: worse on {IA} 0.500 → 0.050 \(n = 20, "
            r"q = 0.012\) against"
            r" vllm:/models/step-3000; run \w{12}; parley compare \w{12} \w{12}",
            line,
        )
        a_night(made)
        assert told(box) == [], "an unchanged night has no news"
        ran(made, "step-1500", 20, 5)
        a_night(made)
        [line] = told(box)
        assert line.startswith("vllm:/models/step-2000"), (
            "a checkpoint that fills in makes a regression of a run of another night"
        )
        assert f"worse on {IA} 1.000 → 0.500" in line
        assert "against vllm:/models/step-1500" in line
        a_night(made)
        assert told(box) == []


@pytest.mark.slow
def test_word_that_was_not_sent_is_sent_by_the_next_night(
    made: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(made, "step-1000", 18, 1)
    a_night(made)
    ran(made, "step-2000", 10, 2)
    begin_event_record(NOTIFY, made)
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
        for notify in (
            NOTIFY,
            others,
            others,
            Notify(events=("failure",), webhook_env="NIGHT_WEBHOOK"),
        ):
            a_night(made, notify)
        assert (len(told(box)), len(told(other_box))) == (1, 1)


@pytest.mark.slow
def test_a_moved_judge_is_named_beside_the_model_that_seems_worse(
    made: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(made, "step-1000", 18, 1, is_judged=True)
    judge_says(made.path, 1, [1, 1, 1])
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        a_night(made)
        new = ran(made, "step-2000", 10, 2, is_judged=True)
        judge_says(made.path, 2, [1, 0, 0.5])
        a_night(made)
        [word] = box.came
    assert (word["event"], word["title"]) == (
        "judge_moved",
        "Parley: 1 possible loss (judge drift)",
    )
    assert f"undecided (the judge drifted) on {IA} 0.900 → 0.500" in word["text"]
    assert "; the judge also drifted: 2 of 3 ratings changed" in word["text"]
    table = comparison_markdown(compared_rows(made, [new.run_id])).splitlines()
    assert table[0].endswith("| event | judge drift |")
    assert table[2].endswith("| judge_moved | 2 of 3 (-0.5) |")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_a_night_tells_what_it_brings_and_no_more(
    standing_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three checkpoints: the second is worse than the first, which only the first night tells."""
    sample = ("codeif.static", "--dataset-version", "sample")
    run = parley(standing_home, "run", *sample, "--model", "control:gold", "--json").json()[
        "run_id"
    ]
    assert (
        parley(
            standing_home, "export", "recording", "--run", run, "--out", tmp_path / "gold.jsonl"
        ).code
        == 0
    )
    right = [json.loads(line) for line in (tmp_path / "gold.jsonl").read_text().splitlines()]
    wrong = [answer | {"content": "I would rather not."} for answer in right]
    for step, answers in enumerate((right, wrong, wrong[::-1]), start=1):
        (tmp_path / f"step-{step}.jsonl").write_text(
            "".join(f"{json.dumps(one)}\n" for one in answers), encoding="utf-8"
        )

    def night(n: int) -> None:
        config = {
            "workers": 1,
            "models": [
                {"spec": f"recorded:step-{step}.jsonl", "family": "tuned"}
                for step in range(1, n + 1)
            ],
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
        assert all(line.startswith("recorded:step-2 · codeif.static: worse on") for line in lines)
        night(3)
        assert told(box) == []
    for step, options, code in (
        (2, ("--fail-on", "regression"), 5),
        (2, (), 0),
        (2, ("--fail-on", "trend"), 0),
        (3, ("--fail-on", "regression"), 0),
    ):
        done = parley(
            standing_home,
            "run",
            *sample,
            "--model",
            f"recorded:{tmp_path}/step-{step}.jsonl",
            "--family",
            "tuned",
            *options,
        )
        assert done.code == code, done.err
        assert ("parley: regression: codeif.static · recorded:step-2: " in done.err) == (code == 5)
    for baseline, options, code, said in (
        ("step-l", ("--fail-on", "trend"), 1, "no published run in this home has this name"),
        ("step-l", (), 0, "no published run in this home has this name"),
        ("recorded:step-1", ("--fail-on", "trend"), 0, ""),
    ):
        done = parley(
            standing_home,
            "run",
            *sample,
            "--model",
            f"recorded:{tmp_path}/step-2.jsonl",
            "--baseline",
            baseline,
            *options,
        )
        assert done.code == code, done.err
        assert (
            "not compared with baseline 'step-l': codeif.static · recorded:step-2" in done.err
        ) == bool(said)
        assert said in done.err


@pytest.mark.slow
def test_a_slow_decline_and_its_end_are_reported_once_each(
    made: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No checkpoint is worse than the one before it by more than chance; together they lose 55
    points.
    """
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        came: list[tuple[int, str, str]] = []
        for night, n_passed in enumerate((19, 18, 17, 16, 15, 13, 12, 11, 8, 19), start=1):
            ran(made, f"step-{night:02}", n_passed, night)
            a_night(made)
            came += [(night, word["event"], word["text"]) for word in box.came]
            box.came.clear()
    assert [event for _, event, _ in came] == ["trend", "recovery"]
    (first, _, decline), (last, _, recovery) = came
    assert (first, last) == (6, 10)
    assert re.match(
        (
            rf"vllm:/models/step-06 · codeif.static: coder declines steadily on {IA}: 0.9\d+ → "
            r"0.[67]\d+ over 6 ch"
        ),
        decline,
    )
    assert f"coder has recovered on {IA}: 0.400 → 0.950" in recovery


@pytest.mark.slow
def test_many_regressions_are_recorded_as_reported_by_the_message_that_held_them(
    made: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        for night, n_passed in ((1, 20), (2, 8)):
            run = checkpoint(
                made.path, f"model-{number:02}-with-a-name-that-makes-its-line-long/step-{night}"
            )
            write(run, passing(n_passed), night)
            rule(run, family=f"family-{number}")
    begin_event_record(NOTIFY, made)
    published(made)
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        box.refused_titles = ("(2 of",)
        report_events(NOTIFY, made, "https://site.test/parley/")
        n_parts = len(box.came)
        assert n_parts >= 3
        second = told_by(box, "(2 of")
        lines = told(box)
        assert len(lines) == 40
        assert all(
            re.search(r"https://site\.test/parley/compared/\w{12}-\w{12}\.html$", line)
            for line in lines
        )
        box.refused_titles = ()
        report_events(NOTIFY, made, "https://site.test/parley/")
        assert told(box) == second, (
            "what the refused message held is reported by the next night, and nothing else"
        )
        report_events(NOTIFY, made, None)
        assert told(box) == []


def told_by(box: PostBox, title: str) -> list[str]:
    return [
        line for word in box.came if title in word["title"] for line in word["text"].splitlines()
    ]


@pytest.mark.slow
def test_a_summary_has_a_line_for_each_checkpoint(
    made: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        ran(made, f"step-{n}", n_passed, n)
        for n, n_passed in enumerate((10, 18, 18, 17, 2), start=1)
    ]
    published(made)
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        notify = Notify(events=("summary",), webhook_env="NIGHT_WEBHOOK")
        report_summary(notify, "night-05", compared_rows(made, [run.run_id for run in runs]), None)
        [word] = box.came
    assert word["title"] == "Parley: night night-05, 4 comparisons"
    verdicts = [line.split(": ", 1)[1].split(" on ")[0] for line in word["text"].splitlines()]
    assert verdicts == ["better", "equal", "undecided", "worse"]


@pytest.mark.slow
def test_a_record_of_an_earlier_parley_is_taken_over(
    made: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = ran(made, "step-1000", 18, 1), ran(made, "step-2000", 10, 2)
    published(made)
    earlier = made.path / "told" / f"regressions-{NOTIFY.addressee}.json"
    earlier.parent.mkdir()
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        for keys, n_reported in (([[new.run_id, old.run_id, IA]], 0), ([], 1)):
            earlier.write_text(json.dumps(keys), encoding="utf-8")
            (made.path / "told" / f"events-{NOTIFY.addressee}.json").unlink(missing_ok=True)
            a_night(made)
            assert len(told(box)) == n_reported

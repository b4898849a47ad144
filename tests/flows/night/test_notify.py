"""A night's messages reach those who are to be notified, and the address that they go to reaches
nobody.
"""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from flows.night.config import read_config
from flows.night.reporting.destinations import Notify, send
from flows.night.reporting.events import Line, Message, packed
from flows.night.reporting.notifications import (
    report_crash,
    report_runs,
    reported_runs,
    reporting_failure,
)
from schemas.errors import ConfigError, InfraError, RunsFailed
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home
from tests.fixtures.model_server import Reply, model_server
from tests.fixtures.post_box import post_box
from tests.flows.parley_command import parley

MESSAGE = Message(
    event="withheld",
    title="Parley: 1 run withheld",
    text="codeif.static · openai:mock: 3 of 8 episodes have infra faults",
)


class KeptLog(logging.Handler):
    """Every line of one logger."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def ended(status: str, title: str) -> RunReport:
    return RunReport(
        run_id="", title=title, setting="", model="", status=status, reason=f"{title} has a reason"
    )


@pytest.mark.slow
def test_a_webhook_gets_one_message_for_each_event(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [
        ended("withheld", "a"),
        ended("finished", "b"),
        ended("failed", "c"),
        ended("withheld", "d"),
        ended("incomplete", "e"),
    ]
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        send(
            Notify(webhook_env="NIGHT_WEBHOOK"),
            [message for message, _ in reported_runs(reports).messages],
        )
    assert box.came == [
        {"event": "failure", "title": "Parley: 1 run failed", "text": "c: c has a reason"},
        {
            "event": "withheld",
            "title": "Parley: 2 runs withheld",
            "text": "a: a has a reason\nd: d has a reason",
        },
        {"event": "budget", "title": "Parley: 1 run incomplete", "text": "e: e has a reason"},
    ]


@pytest.mark.slow
def test_only_events_that_are_asked_for_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        send(Notify(events=("failure",), webhook_env="NIGHT_WEBHOOK"), [MESSAGE])
        send(None, [MESSAGE])
    assert box.came == []


@pytest.mark.slow
def test_apprise_sends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with post_box() as box:
        monkeypatch.setenv(
            "NIGHT_APPRISE", f"json://127.0.0.1:{box.port}/ json://127.0.0.1:{box.port}/other"
        )
        send(Notify(apprise_env="NIGHT_APPRISE"), [MESSAGE])
    assert [(one["title"], one["message"]) for one in box.came] == [
        (MESSAGE.title, MESSAGE.text)
    ] * 2


@pytest.mark.slow
def test_a_block_of_prefect_sends_it_too(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.blocks.notifications import CustomWebhookNotificationBlock
    from prefect.settings import PREFECT_API_URL, temporary_settings

    sent = {"title": "{{subject}}", "text": "{{body}}"}
    with post_box() as box, temporary_settings({PREFECT_API_URL: server_url}):
        block = CustomWebhookNotificationBlock.model_validate(
            {"name": "nights", "url": box.url, "json_data": sent}
        )
        block.save("nights", overwrite=True)
        send(Notify(block="custom-webhook/nights"), [MESSAGE])
    assert box.came == [{"title": MESSAGE.title, "text": MESSAGE.text}]


@pytest.mark.slow
def test_a_place_that_refuses_is_logged_without_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = KeptLog()
    logging.getLogger("parley.notify").addHandler(kept)
    with post_box(status=403) as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        send(Notify(webhook_env="NIGHT_WEBHOOK"), [MESSAGE])
    logging.getLogger("parley.notify").removeHandler(kept)
    assert kept.lines == [
        (
            f"Notification {MESSAGE.title!r} could not be sent to the webhook in NIGHT_WEBHOOK: "
            "HTTPError"
        )
    ]


@pytest.mark.parametrize("given", ["https://chat.test/hidden-in-the-url", "MY_ADDRESS"])
def test_a_url_in_place_of_its_variable_is_refused_and_not_shown(
    tmp_path: Path, given: str
) -> None:
    night = {
        "models": [{"spec": "control:gold"}],
        "benchmarks": [{"name": "codeif"}],
        "notify": {"webhook_env": given},
    }
    (tmp_path / "night.yaml").write_text(yaml.safe_dump(night), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"notify\.webhook_env") as refused:
        read_config(tmp_path / "night.yaml")
    assert given not in str(refused.value)


@pytest.mark.slow
def test_an_error_that_ends_the_night_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    notify = Notify(webhook_env="NIGHT_WEBHOOK")
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        with pytest.raises(InfraError), reporting_failure(notify):
            raise InfraError("no sandbox here")
        with pytest.raises(RunsFailed), reporting_failure(notify):
            raise RunsFailed("its runs have told it")
    assert [one["text"] for one in box.came] == ["no sandbox here"]


def test_runs_of_one_model_and_cause_are_one_line() -> None:
    reports = [
        ended("failed", f"benchmark.{n} · vllm:step").model_copy(
            update={"model": "vllm:step", "reason": "no weights", "setting": f"b.{n}"}
        )
        for n in range(5)
    ]
    [(message, keys)] = reported_runs(reports).messages
    assert message.title == "Parley: 5 runs failed"
    assert message.text == (
        "benchmark.0 · vllm:step, benchmark.1 · vllm:step, benchmark.2 · vllm:step and 2 "
        "other runs: no weights"
    )
    assert len(set(keys)) == 5


def test_lines_go_into_as_many_messages_as_they_need_and_none_is_cut() -> None:
    lines = [
        Line(f"{number:03} {'x' * 300}", (("regression", str(number)),)) for number in range(35)
    ]
    parts = list(packed("regression", "35 regressions", lines))
    assert [message.title for message, _ in parts] == [
        f"Parley: 35 regressions ({n} of 3)" for n in (1, 2, 3)
    ]
    assert all(len(message.text) <= 4000 for message, _ in parts)
    assert [line for message, _ in parts for line in message.text.splitlines()] == [
        line.text for line in lines
    ]
    for message, keys in parts:
        assert [key[1] for key in keys] == [
            str(int(line[:3])) for line in message.text.splitlines()
        ]
    [(message, _)] = packed("failure", "one", [Line("y" * 9000)])
    assert len(message.text) == 1500


@pytest.mark.slow
def test_a_failure_that_repeats_is_reported_once_and_then_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    notify = Notify(webhook_env="NIGHT_WEBHOOK")

    def night(
        *failed: tuple[str, str], finished: tuple[str, ...] = (), notify: Notify = notify
    ) -> list[str]:
        reports = [
            RunReport(
                run_id="", title=model, setting="s", model=model, status="failed", reason=reason
            )
            for model, reason in failed
        ]
        reports += [
            RunReport(run_id="r", title=model, setting="s", model=model, status="finished")
            for model in finished
        ]
        report_runs(notify, home, reports)
        lines = [line for message in box.came for line in message["text"].splitlines()]
        box.came.clear()
        return lines

    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        box.status = 503
        assert night(("a", "port 4711 is taken")) == ["a: port 4711 is taken"]
        box.status = 200
        assert night(("a", "port 4712 is taken")) == ["a: port 4712 is taken"], (
            "no message of it was delivered"
        )
        assert night(("a", "port 4713 is taken")) == []
        assert night(("a", "port 4714 is taken"), ("b", "no weights")) == [
            "b: no weights",
            "failed as reported earlier: a",
        ]
        assert night(("a", "the key was refused")) == ["a: the key was refused"], (
            "another cause is news"
        )
        assert night(("b", "no weights")) == [], "a night without b keeps what was reported of it"
        assert night(finished=("a", "b")) == []
        assert night(("b", "no weights")) == ["b: no weights"], "it had been well meanwhile"
        assert night(
            ("b", "no weights"), notify=Notify(webhook_env="NIGHT_WEBHOOK", mute=False)
        ) == ["b: no weights"]


@pytest.mark.slow
def test_the_crash_of_a_deployed_night_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = {
        "models": [{"spec": "control:gold"}],
        "benchmarks": [{"name": "codeif"}],
        "notify": {"webhook_env": "NIGHT_WEBHOOK"},
    }
    (tmp_path / "night.yaml").write_text(yaml.safe_dump(night), encoding="utf-8")
    parameters = {"config": str(tmp_path / "night.yaml")}
    state = SimpleNamespace(message="Process exited with status code: -9.")
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        for deployment in ("a deployment", None):
            report_crash(
                None,
                SimpleNamespace(deployment_id=deployment, parameters=parameters, name="night"),
                state,
            )
    assert [(one["event"], one["title"]) for one in box.came] == [
        ("failure", "Parley: night crashed")
    ]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_a_night_that_withholds_a_run_tells_it(
    standing_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        model_server(choose=lambda _name, _n: Reply(status=400, message="no such luck")) as server,
        post_box() as box,
    ):
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        night = {
            "workers": 1,
            "models": [{"spec": f"openai:mock@{server.base_url}", "revision": "1"}],
            "benchmarks": [{"name": "codeif.static", "dataset_version": "sample", "limit": 1}],
            "notify": {"webhook_env": "NIGHT_WEBHOOK"},
        }
        (tmp_path / "night.yaml").write_text(yaml.safe_dump(night), encoding="utf-8")
        assert parley(standing_home, "nightly", "--config", tmp_path / "night.yaml").code == 3
    assert [one["event"] for one in box.came] == ["withheld"]
    assert box.came[0]["text"].startswith("codeif.static · openai:mock: quality check scores")

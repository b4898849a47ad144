"""Metrics and spans on a loopback collector: they are the numbers of the run's tables, and they
stop no run.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from flows.night.preflight.notification_destinations import ENDPOINT_VARIABLE, find_collector
from schemas.errors import ConfigError
from tasks.storage.home import Home
from tasks.storage.journaling.segments import SegmentReader, is_being_written
from tests.fixtures.collector import Collector, by_name, collector, facts_of
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.flows.drivers import ROOT
from tests.flows.night.test_costs_agree import RUNS, played
from tests.flows.parley_command import PROFILED, SAMPLE, ask, parley, parley_process

INSTALLED = pytest.mark.skipif(
    find_spec("opentelemetry.sdk") is None,
    reason="OpenTelemetry's exporter is not installed: make telemetry",
)
KEY, HEADER = "sk-telemetry-test-0123456789", "secret-of-the-collector"
USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 8,
    "completion_tokens_details": {"reasoning_tokens": 5},
}
WARNING = "metrics could not be sent to"


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def received(opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> Collector:
    """A collector that the environment names."""
    found = opened.enter_context(collector())
    monkeypatch.setenv(ENDPOINT_VARIABLE, found.base_url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-auth={HEADER}")
    return found


def require_equal_to_costs(home: Path, run_id: str, received: Collector) -> None:
    """Compare what came with the run's rows of `costs`, role by role."""
    rows = {
        row["role"]: row for row in ask(home, f"select * from costs where run_id like '{run_id}%'")
    }
    assert rows
    for metric, column, of in (
        ("parley.turns", "n_turns", {}),
        ("parley.calls", "calls", {}),
        ("parley.tokens", "input_tokens", {"token_type": "input"}),
        ("parley.tokens", "output_tokens", {"token_type": "output"}),
        ("parley.tokens", "reasoning_tokens", {"token_type": "reasoning"}),
    ):
        known = {role: row[column] for role, row in rows.items() if row[column] is not None}
        found = received.values(metric, **of)
        found.pop("judge_drift", None)
        assert found == known, (metric, column)
    usd = {role: row["usd"] for role, row in rows.items() if row["usd"] is not None}
    paid = received.values("parley.cost", cost_by="tokens")
    paid.pop("judge_drift", None)
    assert paid == pytest.approx(usd)


@INSTALLED
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("run", [RUNS[2], RUNS[4]], ids=["judge", "simulator"])
def test_each_role_s_numbers_are_those_of_the_costs(
    standing_home: Path, opened: ExitStack, received: Collector, run: object
) -> None:
    out, _ = played(standing_home, run, opened)  # type: ignore[arg-type]  (one of RUNS)
    found = re.search(r"\(run ([0-9a-f]{12})\)", out)
    assert found, out
    require_equal_to_costs(standing_home, found[1], received)
    assert received.values("parley.cost")


@INSTALLED
@pytest.mark.slow
def test_a_run_s_metrics_are_its_tables_and_hold_no_text_or_key(
    served_home: Path, received: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEMETRY_TEST_KEY", KEY)
    monkeypatch.delenv(
        "PARLEY_DASK_ADDRESS", raising=False
    )  # the standing worker of other tests does not know the key
    answer = Reply(content="```python\nthe_answer_of_the_model = 1\n```", body=(("usage", USAGE),))
    with model_server(
        [Reply(status=503), Reply(status=500)], answer=lambda _: answer, key=KEY
    ) as server:
        named = (
            "--model",
            f"openai:mock@{server.base_url}",
            "--key-env",
            "TELEMETRY_TEST_KEY",
            "--revision",
            "1",
        )
        done = parley(served_home, *SAMPLE, *named, "--price", "1.25", "10", "--json").json()
    assert done["status"] == "finished"
    require_equal_to_costs(served_home, done["run_id"], received)
    assert received.values("parley.tokens", by="parley.endpoint") == {
        server.base_url: pytest.approx(33 * turns(server))
    }
    (latencies,) = ask(
        served_home,
        f"select count(latency_s) n, sum(latency_s) s from turns where run_id = '{done['run_id']}'",
    )
    count, total = received.histogram("parley.answer.duration", "subject")
    assert (count, total) == (latencies["n"], pytest.approx(latencies["s"]))
    assert sum(received.values("parley.faults", by="parley.fault").values()) == 2
    assert (
        received.values("parley.requests.in_flight")
        == received.values("parley.requests.waiting")
        == {"subject": 0}
    )
    require_spans(served_home, done["run_id"], received)
    sent = b"".join(received.bodies)
    texts = [message["content"] for body in server.bodies for message in body["messages"]]
    assert len(texts) > 10
    assert [
        text
        for text in (*texts, "the_answer_of_the_model", KEY, HEADER)
        if text[:60].encode() in sent
    ] == []
    assert {headers["x-auth"] for headers in received.headers} == {HEADER}


def turns(server: ModelServer) -> int:
    """Answers that the server gave."""
    return len(server.bodies) - 2


def require_spans(home: Path, run_id: str, received: Collector) -> None:
    """Compare the spans below the run's with the stages in `stage_times`."""
    [night], [run] = by_name(received.spans, "night"), by_name(received.spans, "run")
    assert run.parent_span_id == night.span_id
    assert facts_of(run.attributes)["parley.run_id"] == run_id
    assert facts_of(run.attributes)["parley.status"] == "finished"
    stages = [span for span in received.spans if span.parent_span_id == run.span_id]
    rows = ask(home, f"select stage, seconds from stage_times where run_id = '{run_id}'")
    assert sorted(span.name for span in stages) == sorted(row["stage"] for row in rows)
    assert {
        span.name: (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9 for span in stages
    } == pytest.approx({row["stage"]: row["seconds"] for row in rows}, abs=1e-6)
    assert {facts["service.name"] for facts in received.resources} == {"parley"}


@INSTALLED
@pytest.mark.slow
def test_a_night_s_configuration_names_the_collector(
    standing_home: Path, opened: ExitStack, tmp_path: Path
) -> None:
    received = opened.enter_context(collector())
    server = opened.enter_context(model_server())
    config = tmp_path / "nightly.yaml"
    config.write_text(
        f"telemetry: {received.base_url}\nmodels:\n  - spec: control:gold\n  - spec: "
        f"openai:mock@{server.base_url}\n"
        "    revision: '1'\nbenchmarks:\n  - name: codeif.static\n    dataset_version: sample\n"
    )
    done = parley(tmp_path / "home", "nightly", "--config", config)
    assert done.code == 0, done.err
    rows = ask(tmp_path / "home", "select role_model, n_turns from costs")
    assert len(rows) == 2
    assert received.values("parley.turns", by="parley.model") == {
        row["role_model"]: row["n_turns"] for row in rows
    }
    assert len(by_name(received.spans, "run")) == 2


@INSTALLED
@pytest.mark.slow
def test_a_collector_that_is_not_there_costs_one_warning_and_no_run(
    standing_home: Path, tmp_path: Path, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collector() as gone:
        url = gone.base_url
    monkeypatch.setenv(ENDPOINT_VARIABLE, url)
    server = opened.enter_context(model_server())
    done = parley(
        tmp_path / "home", *SAMPLE, "--model", f"openai:mock@{server.base_url}", "--revision", "1"
    )
    assert done.code == 0, done.err
    assert done.err.count(WARNING) == 1
    assert "Traceback" not in done.err
    assert not list((tmp_path / "home" / "calls").iterdir())


@INSTALLED
@pytest.mark.slow
def test_a_collector_that_does_not_answer_holds_the_end_up_for_seconds_at_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.night.reporting.progress import Board
    from flows.night.reporting.telemetry import exporting

    board = Board()
    with collector(hanging=True) as silent:
        with exporting(silent.base_url, "night-1", tmp_path, board, list):
            board.stage("a", "converse")
            board.end()
            began_s = time.monotonic()
        assert time.monotonic() - began_s < 9
    assert capsys.readouterr().err.count(WARNING) <= 1


WRITER = """
import os, signal, sys
from schemas.episode import Step
from tasks.worker.call_log import CallLog
log = CallLog(sys.argv[1], "run-1")
for _ in range(100):
    step = Step(turn=1, role="assistant", content="", n_calls=1, input_tokens=3, latency_s=0.5)
    log.answered("subject", step, turns=1)
log.file.change("run-1", "subject", open=5, in_flight=2)
log.file.write_queues()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_no_answer_and_its_requests_are_open_no_more(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-P", "-c", WRITER, str(tmp_path)], env=environ, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    reader = SegmentReader(tmp_path)
    (segment,) = reader.segments()
    rows = [row for _, row in reader.new_rows([segment])]
    assert [(row["turns"], row["input"], row["output"]) for row in rows[:-1]] == [
        (1, 3, None)
    ] * 100
    assert (rows[-1]["waiting"], rows[-1]["in_flight"]) == (3, 2)
    assert not is_being_written(segment)


@pytest.mark.slow
def test_nothing_is_imported_by_default(home: Path) -> None:
    done = parley_process(home, *SAMPLE, "--model", "control:gold", environ=PROFILED)
    assert done.code == 0, done.err
    assert "flows.night.session" in done.err
    assert (
        re.findall(r"opentelemetry\.(?:sdk|exporter)|flows\.night\.reporting\.telemetry", done.err)
        == []
    )


def test_what_cannot_work_is_refused_before_anything_starts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Home(home)
    assert find_collector(place, None, {}) is None
    assert (
        find_collector(
            place, None, {ENDPOINT_VARIABLE: "http://c:4318/", "OTEL_SDK_DISABLED": "true"}
        )
        is None
    )
    with pytest.raises(ConfigError, match="is not an HTTP URL"):
        find_collector(place, "collector:4318", {})
    with pytest.raises(ConfigError, match=r"not shown.*OTEL_EXPORTER_OTLP_HEADERS") as refused:
        find_collector(place, "http://user:hunter2@c:4318", {})
    assert "hunter2" not in str(refused.value)
    monkeypatch.setattr(
        "flows.night.preflight.notification_destinations.find_spec", lambda name: None
    )
    with pytest.raises(
        ConfigError, match=r"make telemetry` or `pip install 'parley-eval\[telemetry\]'"
    ):
        find_collector(place, "http://c:4318", {})


@pytest.mark.slow
def test_a_missing_package_ends_the_command_with_its_remedy(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "flows.night.preflight.notification_destinations.find_spec", lambda name: None
    )
    monkeypatch.setenv(ENDPOINT_VARIABLE, "http://127.0.0.1:4318")
    refused = parley(home, *SAMPLE, "--model", "control:gold")
    assert refused.code == 2
    assert "make telemetry" in refused.err
    assert f"unset {ENDPOINT_VARIABLE}" in refused.err
    assert not (home / "prefect").exists()

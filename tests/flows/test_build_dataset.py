"""A dataset made by model calls and programs: by a benchmark of the tests, through the entry point,
behind real endpoints.
"""

import csv
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.night import write_plugin
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.flows.drivers import ROOT
from tests.flows.parley_command import Done, parley_process, started
from tests.tasks.benchmarks.constructed import FILE, stage

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
WHAT, PAIRS, UNREAD = "constructed-pairs", 4, 1
"""Two pairs on each of two topics; one rating cannot be read at first."""
CALLS = 2 * PAIRS + UNREAD


def answer(messages: list[dict[str, Any]]) -> str:
    """A pair on the topic; of `shout`, the second fails its test.

    The judge says 4, and to one question first no number.
    """
    said = messages[-1]["content"]
    if said.startswith("Rate"):
        return "Fine." if "double 0" in said else "4"
    if "cannot be read" in said:
        return "5"
    topic, number = said.split("question on ")[1].split(",")[0], said.split("number ")[1][0]
    result = 0 if (topic, number) == ("shout", "1") else 1
    code = f"def f():\n    return {result}  # {topic} {number}"
    return json.dumps(
        {"question": f"=cmd|{topic} {number}", "test": "assert f() == 1", "code": code}
    )


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(max_seconds=300, answer=answer) as server:
        yield server


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    write_plugin(tmp_path / "plugin", "constructed", "tests.tasks.benchmarks.constructed:BENCHMARK")
    return {"PYTHONPATH": os.pathsep.join((str(tmp_path / "plugin"), str(ROOT)))}


def arguments(server: ModelServer, out: Path) -> tuple[str, ...]:
    spec = f"openai:mock@{server.base_url}"
    said = ("build", WHAT, "--dataset-version", "sample", "--model", spec, "--judge", spec)
    pinned = ("--revision", "1", "--judge-revision", "1")
    return (*said, *pinned, "--concurrency", "2", "--patience-s", "2", "--out", str(out), "--json")


def build(home: Path, server: ModelServer, out: Path, environ: dict[str, str], *more: str) -> Done:
    return parley_process(home, *arguments(server, out), *more, environ=environ)


def counts(done: Done) -> tuple[int, int, int, int]:
    """Answers asked for and known, programs run and known."""
    said = done.json()
    asked, reused = (sum(call[kind] for call in said["calls"]) for kind in ("asked", "reused"))
    return asked, reused, said["programs_run"], said["programs_reused"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def wait_until_held(server: ModelServer, driver: Any) -> None:
    """Until the server has answered what it may, and holds as many requests as there may be."""
    deadline = time.monotonic() + 120
    while (
        server.answered < (server.holds_after or 0) or not server.in_flight
    ) and time.monotonic() < deadline:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.05)


def kill_in_the_middle(driver: Any, server: ModelServer, number: signal.Signals) -> int:
    """Returns how many requests were in flight."""
    wait_until_held(server, driver)
    time.sleep(0.5)
    in_flight = server.in_flight
    driver.send_signal(number)
    driver.wait(10)
    server.holds_after = None
    return in_flight


def test_a_killed_build_asks_nothing_twice_and_makes_the_files_of_an_unkilled_one(
    served_home: Path, server: ModelServer, environ: dict[str, str], tmp_path: Path
) -> None:
    out, whole = tmp_path / "made", tmp_path / "whole"
    dry = build(served_home, server, out, environ, "--dry-run").json()
    assert [(call["role"], call["estimated"]) for call in dry["calls"]] == [
        ("judge", PAIRS),
        ("model", PAIRS),
    ]
    assert (server.bodies, out.exists(), (served_home / "builds").exists()) == ([], False, False)

    server.holds_after = 5
    with started(served_home, *arguments(server, out), environ=environ) as driver:
        in_flight = kill_in_the_middle(driver, server, signal.SIGKILL)
    assert not out.exists()

    first = build(served_home, server, out, environ)
    assert first.code == 0, first.err
    assert (in_flight, server.max_in_flight) == (2, 2), (
        "both roles share their endpoint's concurrency"
    )
    asked, reused, run, known = counts(first)
    assert (asked + reused, reused, run + known) == (CALLS, 5, PAIRS)
    assert (len(server.bodies), sum(server.prompts.values()) - len(server.prompts)) == (
        CALLS + in_flight,
        in_flight,
    )
    made = contents(out)
    assert sorted(made) == ["build.json", "review.csv", FILE]
    assert len(stage(out, "made").problems) == PAIRS - 1
    sheet = list(csv.reader(made["review.csv"].decode().splitlines()))
    assert sheet[0] == ["id", "question", "passed", "rating"]
    assert sorted(row[1:] for row in sheet[1:]) == [
        ["'=cmd|double 0", "True", "5"],
        ["'=cmd|double 1", "True", "4"],
        ["'=cmd|shout 0", "True", "4"],
        ["'=cmd|shout 1", "False", "4"],
    ]

    again = build(served_home, server, out, environ)
    assert (counts(again), len(server.bodies)) == ((0, CALLS, 0, PAIRS), CALLS + in_flight)
    assert contents(out) == made

    other = build(tmp_path / "other-home", server, whole, environ)
    assert (counts(other), contents(whole)) == ((CALLS, 0, PAIRS, 0), made)


def test_a_cap_stops_it_resumable_and_what_was_answered_is_not_asked_for_again(
    served_home: Path, server: ModelServer, environ: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    stopped = build(served_home, server, out, environ, "--budget", "tokens=1")
    assert (
        stopped.code,
        "the cap tokens=1 is reached" in stopped.err,
        "resume with: parley build" in stopped.err,
    ) == (4, True, True)
    asked = len(server.bodies)
    assert 0 < asked < CALLS
    done = build(served_home, server, out, environ, "--budget", "tokens=1000000,hours=1")
    assert (done.code, len(server.bodies)) == (0, CALLS), done.err
    priced = build(served_home, server, tmp_path / "other", environ, "--budget", "usd=1")
    assert (priced.code, "it takes no prices" in priced.err) == (2, True), priced.err


def test_a_signal_ends_it_in_time_and_a_dead_endpoint_says_how_to_go_on(
    served_home: Path, server: ModelServer, environ: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "made"
    server.holds_after = 5
    with started(served_home, *arguments(server, out), environ=environ) as driver:
        in_flight = kill_in_the_middle(driver, server, signal.SIGTERM)
        assert driver.returncode == 143
        assert driver.stderr is not None
        assert f"resume with: parley build {WHAT}" in driver.stderr.read()

    server.choose = lambda name, before: Reply(status=401, code="invalid_api_key")
    dead = build(served_home, server, out, environ)
    assert (dead.code, f"resume with: parley build {WHAT}" in dead.err, out.exists()) == (
        1,
        True,
        False,
    ), dead.err

    server.choose = None
    done = build(served_home, server, out, environ)
    assert counts(done)[:2] == (CALLS - 5, 5), done.err
    assert (in_flight, len(contents(out))) == (2, 3)

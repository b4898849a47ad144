"""A run that is stopped goes on with the same command, and no completed turn is asked for again.

Kills: tests/crash.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.flows.drivers import family, living
from tests.flows.parley_command import SAMPLE, ask, parley, parley_process, started

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
IN_FLIGHT = 4
N_TURNS = 38
"""Answers in the sample's eight dialogues."""


def run_arguments(server: ModelServer) -> tuple[str, ...]:
    model = f"openai:mock@{server.base_url}"
    return (*SAMPLE, "--model", model, "--revision", "1", "--concurrency", str(IN_FLIGHT))


def wait_until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {limit_s} s"
        time.sleep(0.02)


def assert_whole_and_unrepeated(home: Path, server: ModelServer, answered_before: int) -> None:
    """The finished run has every answer, and at most what was in flight at the stop was asked for
    twice.
    """
    line = parley(home, *run_arguments(server), "--json").json()
    assert (line["episodes"], line["owed"], line["n_infra"]) == (8, 0, 0)
    assert line["n_reused"] + line["n_resumed"] + line["n_new"] == 8
    assert ask(home, "SELECT count(*) n FROM turns WHERE role = 'assistant'") == [{"n": N_TURNS}]
    assert answered_before < N_TURNS, "the run was stopped too late to show anything"
    asked = sum(server.prompts.values())
    assert N_TURNS <= asked <= N_TURNS + IN_FLIGHT
    assert not list((home / "journal").rglob("*.jsonl")), "all that the journal held is Parquet"
    assert not [path for path in (home / "lake").rglob("*") if path.name.startswith(".writing-")]


def test_a_smaller_invocation_after_a_kill_keeps_what_the_larger_one_had_journaled(
    served_home: Path,
) -> None:
    with model_server(holds_after=12) as server:
        with started(served_home, *run_arguments(server)) as process:
            wait_until(lambda: server.answered >= 12, 180, "the twelfth answer")
            process.kill()
            process.wait()
        answered, server.holds_after = server.answered, None
        smaller = parley(served_home, *run_arguments(server), "--limit", "1", "--json").json()
        assert (smaller["episodes"], smaller["owed"]) == (1, 0)
        assert_whole_and_unrepeated(served_home, server, answered)


def test_a_concurrency_smaller_than_the_number_of_workers_is_kept(served_home: Path) -> None:
    with model_server(latency_s=0.02) as server:
        arguments = (
            *SAMPLE,
            "--model",
            f"openai:mock@{server.base_url}",
            "--revision",
            "1",
            "--concurrency",
            "1",
            "--workers",
            "2",
            "--limit",
            "3",
            "--samples",
            "6",
        )
        assert parley(served_home, *arguments, "--json").json()["owed"] == 0
        assert server.max_in_flight == 1


def test_an_endpoint_that_refuses_everything_is_asked_once_for_each_episode_and_named(
    served_home: Path,
) -> None:
    refusals = [Reply(status=400, message="no \x1b]0;EVIL\x07 such luck")] * 99
    with model_server(refusals) as server:
        done = parley_process(served_home, *run_arguments(server))
        asked = server.stats()["requests"] if "requests" in server.stats() else len(server.bodies)
    assert done.code == 3, done.err
    assert "400" in done.err
    assert server.base_url in done.err
    assert "\x1b" not in done.err
    assert asked == 8
    assert ask(served_home, "SELECT status, n_infra, n_owed FROM runs") == [
        {"status": "withheld", "n_infra": 8, "n_owed": 8}
    ]


def test_a_signal_ends_it_with_what_to_type_next(home: Path) -> None:
    with model_server(holds_after=6) as server:
        with started(home, *run_arguments(server)) as process:
            wait_until(lambda: server.answered >= 6, 180, "the sixth answer")
            relatives = family(process)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=120)
        answered, server.holds_after = server.answered, None
        assert process.returncode == 143, err
        assert "Traceback" not in err
        assert "resume with: parley run codeif.static" in err
        wait_until(lambda: not living(relatives), 60, "the end of every process of the stopped run")
        assert_whole_and_unrepeated(home, server, answered)


SLOW = "```python\nimport time\ntime.sleep(3)\n```"
"""A program that outlasts the kill: its answer is paid for, and its message not ready."""


def test_an_answer_whose_program_runs_at_a_kill_is_not_asked_for_again(served_home: Path) -> None:
    setting = (
        "run",
        "convcode.live[none]",
        "--dataset-version",
        "sample",
        "--workers",
        "1",
        "--limit",
        "3",
    )
    with model_server(choose=lambda _name, _n: Reply(content=SLOW)) as server:
        arguments = (*setting, "--model", f"openai:mock@{server.base_url}", "--revision", "1")
        with started(served_home, *arguments) as process:
            wait_until(lambda: server.answered >= 3, 180, "the third answer")
            kept = served_home / "journal"
            wait_until(
                lambda: sum(p.read_bytes().count(b"\n") for p in kept.rglob("*.jsonl")) >= 3,
                60,
                "its line in the journal",
            )
            process.kill()
            process.wait()
        line = parley(served_home, *arguments, "--json").json()
        assert (line["episodes"], line["owed"], sum(server.prompts.values())) == (3, 0, 3)
        assert ask(served_home, "SELECT sum(n_calls) n FROM turns WHERE role = 'assistant'") == [
            {"n": 3}
        ]

"""A run tells how many requests it asked, repeated, was refused and paid for, as its killed server
counts them.
"""

import json
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fixtures.model_server import Reply, model_server
from tests.flows.parley_command import SAMPLE, ask, parley, started

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
IN_FLIGHT = 4
N_TURNS = 38
"""Answers in the sample's eight dialogues."""
N_BEFORE = 12
"""Answers before the server is killed."""
FAULTS = (Reply(status=429), Reply(status=503), Reply(fault="reset"), Reply(fault="truncated"))


def wait_for_refusals(home: Path, port: int, limit_s: float = 60.0) -> None:
    """Wait until the client has met the closed port."""
    deadline = time.monotonic() + limit_s
    while b'"is_paid":false,' not in b"".join(
        path.read_bytes() for path in (home / "sends").rglob("*.jsonl")
    ):
        assert time.monotonic() < deadline, f"nothing was sent to port {port} within {limit_s} s"
        time.sleep(0.05)


def test_the_counts_of_a_run_whose_server_is_killed_are_the_servers_own(served_home: Path) -> None:
    with ExitStack() as killed:
        first = killed.enter_context(model_server(holds_after=N_BEFORE, max_seconds=300))
        port = int(first.base_url.rpartition(":")[2].removesuffix("/v1"))
        model = f"openai:mock@{first.base_url}"
        arguments = (
            *SAMPLE,
            "--model",
            model,
            "--revision",
            "1",
            "--concurrency",
            str(IN_FLIGHT),
            "--json",
        )
        with started(served_home, *arguments) as process:
            while first.answered < N_BEFORE:
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.05)
            killed.close()
            n_first = len(first.bodies)
            wait_for_refusals(served_home, port)
            with model_server(FAULTS, port=port, max_seconds=300) as second:
                out, err = process.communicate(timeout=240)
                assert process.returncode == 0, err
                n_second = len(second.bodies)
    line = json.loads(out)
    assert (line["episodes"], line["owed"]) == (8, 0)
    found = line["requests"]
    n_refused = sum(reply.status != 200 for reply in FAULTS)
    assert found["asked"] == N_TURNS
    assert found["paid"] == n_first + n_second - n_refused, (
        "each answer, and what broke off under way"
    )
    assert found["refused"] > n_refused, "the closed port refused some, too"
    assert found["asked"] + found["repeated"] == found["refused"] + found["paid"]
    assert line["model_calls"] <= n_first + n_second
    text = "requests: {asked} asked, {repeated} repeated; {refused} refused, {paid} paid".format(
        **found
    )
    assert text in parley(served_home, "report").out
    (night,) = json.loads(parley(served_home, "report", "--json").out)["runs"]
    assert night["requests"] == found
    columns = ", ".join(f"requests_{name} as {name}" for name in found if name != "embedder")
    assert ask(served_home, f"select {columns}, 0 as embedder from night_work") == [found]
    assert ask(served_home, "select work.requests as requests from runs") == [{"requests": found}]
    assert not list((served_home / "sends").rglob("*.jsonl")), "the record holds the counts"
    again = parley(served_home, *arguments).json()
    assert again["requests"] == dict.fromkeys(found, 0)

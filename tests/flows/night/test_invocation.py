"""What one invocation starts."""

from pathlib import Path

import pytest

from flows.night.session import needed_workers
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home


@pytest.mark.parametrize(("asked", "limit", "started"), [(2, 1, 1), (2, 2, 2), (3, None, 3)])
def test_a_run_starts_no_more_workers_than_it_has_episodes(
    home: Path, asked: int, limit: int | None, started: int
) -> None:
    sample = BenchmarkRequest(name="codeif.static", dataset_version="sample", limit=limit)
    request = EvaluationRequest(
        model=ModelRequest(spec="control:gold"), benchmark=sample, workers=asked
    )
    assert needed_workers([plan_run(request, Home(home))]) == started

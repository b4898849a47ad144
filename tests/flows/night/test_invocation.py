"""What one invocation starts."""

from pathlib import Path

import pytest

from flows.night.session import needed_workers
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home


@pytest.mark.parametrize(
    ("asked", "samples", "started"), [(3, 1, 1), (1, 3, 1), (2, 2, 1), (2, 3, 2), (3, 5, 3)]
)
def test_a_run_starts_a_worker_for_each_16_episodes(
    home: Path, asked: int, samples: int, started: int
) -> None:
    sample = BenchmarkRequest(name="codeif.static", dataset_version="sample", samples=samples)
    request = EvaluationRequest(
        model=ModelRequest(spec="control:gold"), benchmark=sample, workers=asked
    )
    assert needed_workers([plan_run(request, Home(home))]) == started

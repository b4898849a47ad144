"""One Prefect server and one Dask worker for all tests of a process: to start them would be most of a small run's time."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.night.runtime import THREADS_PER_WORKER
from flows.orchestration.dask_cluster import ADDRESS_VARIABLE, dask_cluster
from flows.orchestration.server import start_server, stop_server


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a standing Prefect server; nothing of it runs on after the tests."""
    home = tmp_path_factory.mktemp("server") / "home"
    before = dict(os.environ)
    server = start_server(home)
    try:
        yield server.api_url
    finally:
        stop_server(home, force=True)
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def dask_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Dask scheduler with one worker process, made as a run's own is."""
    scratch = tmp_path_factory.mktemp("dask")
    with dask_cluster(n_workers=1, threads_per_worker=THREADS_PER_WORKER, scratch=scratch) as client:
        yield str(client.scheduler_info()["address"])


@pytest.fixture
def served_home(home: Path, server_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home whose commands use the standing server, and start workers of their own."""
    monkeypatch.setenv("PREFECT_API_URL", server_url)
    return home


@pytest.fixture(scope="module")
def standing_home(tmp_path_factory: pytest.TempPathFactory, server_url: str, dask_address: str) -> Iterator[Path]:
    """An empty home for a whole module, whose commands use the standing server and its worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_URL", server_url)
        patch.setenv(ADDRESS_VARIABLE, dask_address)
        yield tmp_path_factory.mktemp("parley") / "home"

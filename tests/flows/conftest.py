"""A home whose Prefect server stays up for a whole module: starting one for each test would be most of their time."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.orchestration.server import server_status, start_server, stop_server


@pytest.fixture(scope="module")
def standing_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with a standing server; nothing of it runs on after the module."""
    home = tmp_path_factory.mktemp("parley") / "home"
    before = dict(os.environ)
    start_server(home)
    try:
        yield home
    finally:
        stop_server(home, force=True)
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def server_url(standing_home: Path) -> str:
    """Address of the module's standing server."""
    found = server_status(standing_home)
    assert found is not None
    return found.api_url


@pytest.fixture
def served_home(home: Path, server_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home whose commands use the module's standing server."""
    monkeypatch.setenv("PREFECT_API_URL", server_url)
    return home

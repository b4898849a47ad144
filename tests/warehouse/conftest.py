"""A small lake for each test, published or not yet, and CodeIF's marts."""

import shutil
from pathlib import Path

import pytest

from tasks.benchmarks.codeif.scoring import MARTS
from tests.warehouse.small_lake import SmallLake
from warehouse.marts import MartSource
from warehouse.publication.publish import publish

Marts = tuple[MartSource, ...]


@pytest.fixture(scope="session")
def codeif_marts() -> Marts:
    return MARTS


@pytest.fixture(scope="session")
def lake_pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return SmallLake(tmp_path_factory.mktemp("lake")).write_all().home


@pytest.fixture(scope="session")
def published_pattern(
    lake_pattern: Path, codeif_marts: Marts, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    home = tmp_path_factory.mktemp("published") / "home"
    shutil.copytree(lake_pattern, home)
    publish(home, marts=codeif_marts)
    return home


@pytest.fixture
def lake(lake_pattern: Path, tmp_path: Path) -> SmallLake:
    """Four runs: see small_lake. A test's own copy."""
    return SmallLake(Path(shutil.copytree(lake_pattern, tmp_path / "home")))


@pytest.fixture
def published(published_pattern: Path, tmp_path: Path) -> SmallLake:
    """The same, published with CodeIF's marts. A test's own copy."""
    return SmallLake(Path(shutil.copytree(published_pattern, tmp_path / "home")))

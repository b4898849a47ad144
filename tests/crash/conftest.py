"""What the nights of this folder share: one night that nothing interrupted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.comparison import Tables, tables
from tests.crash.night import TURNS, Night, adopting_orphans, counting_server
from tests.warehouse.small_lake import SmallLake
from warehouse.publication.publish import publish


@pytest.fixture(autouse=True)
def _no_orphan_unseen() -> Iterator[None]:
    with adopting_orphans():
        yield


def with_earlier_nights(home: Path) -> None:
    """Four earlier runs, published: what a kill must not change either."""
    SmallLake(home).write_all()
    publish(home)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, server_url: str) -> Tables:
    """The tables of a night that ran from its beginning to its end."""
    with adopting_orphans(), counting_server(max_seconds=600) as counter:
        night = Night(
            tmp_path_factory.mktemp("uninterrupted"), counter, {"PREFECT_API_URL": server_url}
        )
        with_earlier_nights(night.home)
        line = night.run().line()
        assert (line["episodes"], line["model_calls"], counter.calls()) == (60, TURNS, TURNS)
        return tables(night.home)

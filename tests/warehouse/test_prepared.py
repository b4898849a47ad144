"""The warehouse's copy made ahead: used while it is one of the present file, never otherwise, and
gone after each publication.
"""

import os
from pathlib import Path

import pytest

from tests.warehouse.conftest import Marts
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.test_incremental import contents, differing_from_rebuild
from warehouse.connect import warehouse_path
from warehouse.publication import copying, publish
from warehouse.publication.copying import copy_file


@pytest.fixture(autouse=True)
def worth_it_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "SMALLEST_BYTES", 1)


def no_copy(*_: object) -> None:
    raise AssertionError("the publication copied the file itself")


@pytest.mark.slow
def test_a_prepared_copy_spares_the_publication_its_own(
    published: SmallLake, tmp_path: Path, codeif_marts: Marts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copying.prepare_copy(published.home)
    published.write_simple(published.gamma)
    monkeypatch.setattr(publish, "copy_file", no_copy)
    assert publish.publish(published.home, marts=codeif_marts).replaced
    assert differing_from_rebuild(published.home, tmp_path / "scratch", codeif_marts) == []
    assert [path.name for path in published.home.glob("warehouse*")] == ["warehouse.duckdb"]


@pytest.mark.slow
def test_a_copy_of_an_older_file_is_not_used(
    published: SmallLake, tmp_path: Path, codeif_marts: Marts
) -> None:
    stale = copying.prepare_copy(published.home)
    assert stale is not None
    content = stale.read_bytes()
    published.write_simple(published.gamma)
    publish.publish(published.home, marts=codeif_marts)
    stale.write_bytes(content)  # as if it came while that publication ended
    assert publish.publish(published.home, marts=codeif_marts).replaced is False
    assert not stale.exists()
    assert differing_from_rebuild(published.home, tmp_path / "scratch", codeif_marts) == []


def test_nothing_is_prepared_without_a_warehouse_or_room(
    published: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copying.prepare_copy(published.home / "elsewhere") is None
    monkeypatch.setattr(copying, "SMALLEST_BYTES", 1 << 60)
    assert copying.prepare_copy(published.home) is None
    assert [path.name for path in published.home.glob("warehouse*")] == ["warehouse.duckdb"]


@pytest.mark.parametrize(
    "size", [0, 1, 4096, 2**21, 2**21 + 1, 2**22 - 1, 2**22 + 4097, 5 * 2**20 + 3]
)
def test_a_copy_has_every_byte(tmp_path: Path, size: int) -> None:
    (tmp_path / "one").write_bytes(os.urandom(size))
    copy_file(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()


@pytest.mark.slow
def test_the_digests_compared_here_tell_files_apart(
    published: SmallLake, codeif_marts: Marts
) -> None:
    before = contents(published.home)
    published.write_simple(published.gamma)
    publish.publish(published.home, marts=codeif_marts)
    assert contents(published.home) != before
    assert warehouse_path(published.home).exists()

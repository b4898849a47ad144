"""Files made ahead of a publication: used while they are of the present warehouse, never otherwise,
and gone after each publication.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
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


def no_tables(*_: object) -> None:
    raise AssertionError("the publication made the tables itself")


@pytest.mark.slow
def test_prepared_tables_spare_the_first_publication_its_own(
    lake: SmallLake, tmp_path: Path, codeif_marts: Marts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert publish.prepare_tables(lake.home, codeif_marts)
    assert publish.prepare_tables(lake.home, codeif_marts) is None
    with monkeypatch.context() as patched:
        patched.setattr(publish.migrate, "create_tables", no_tables)
        report = publish.publish(lake.home, marts=codeif_marts)
    assert (report.replaced, report.rebuilt_because, report.n_runs_published) == (True, None, 3)
    assert differing_from_rebuild(lake.home, tmp_path / "scratch", codeif_marts) == []
    assert [path.name for path in lake.home.glob("warehouse*")] == ["warehouse.duckdb"]
    assert publish.prepare_tables(lake.home, codeif_marts) is None


def _older_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(publish.migrate, "FORMAT", 0)
        assert publish.prepare_tables(home)


def _fewer_marts(home: Path, _: pytest.MonkeyPatch) -> None:
    assert publish.prepare_tables(home)


def _torn(home: Path, _: pytest.MonkeyPatch) -> None:
    prepared = publish.prepare_tables(home)
    assert prepared is not None
    os.truncate(prepared, prepared.stat().st_size // 2)


def _killed(home: Path, _: pytest.MonkeyPatch) -> None:
    code = (
        "import os, sys; from pathlib import Path; from warehouse.publication import publish;"
        "publish.refresh_marts = lambda *_: os.kill(os.getpid(), 9);"
        "publish.prepare_tables(Path(sys.argv[1]))"
    )
    ended = subprocess.run((sys.executable, "-c", code, str(home)), check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(home.glob("warehouse.duckdb.next-unfinished-*"))


@pytest.mark.slow
@pytest.mark.parametrize("prepare", [_older_version, _fewer_marts, _torn, _killed])
def test_a_preparation_that_does_not_fit_changes_no_publication(
    lake: SmallLake,
    tmp_path: Path,
    codeif_marts: Marts,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    prepare(lake.home, monkeypatch)
    report = publish.publish(lake.home, marts=codeif_marts)
    assert (report.replaced, report.rebuilt_because) == (True, None)
    assert differing_from_rebuild(lake.home, tmp_path / "scratch", codeif_marts) == []
    assert [path.name for path in lake.home.glob("warehouse*")] == ["warehouse.duckdb"]

"""Readers, publishers and kills, each in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schemas.errors import ParleyError
from tests.warehouse.small_lake import SmallLake
from warehouse.connect import query, warehouse_path
from warehouse.publish import publish

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0


@contextmanager
def python(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program of ours in another process, ended at the latest with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


READER = """
import sys
from pathlib import Path
from warehouse.connect import query
home, stop = Path(sys.argv[1]), Path(sys.argv[2])
sql = "select (select count(distinct run_id) from scores), (select count(distinct run_id) from leaderboard)"
seen, n = set(), 0
ended = False
while not ended:
    ended = stop.exists()
    seen.add(query(home, sql)[1][0])
    n += 1
    if n == 1:
        print("reading", flush=True)
print(sorted(seen), n)
"""


def test_a_reader_never_waits_and_sees_whole_publications_only(published: SmallLake, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    with python(READER, str(published.home), str(stop)) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        for status in ("finished", "incomplete", "finished"):
            published.gamma.write_record(status)
            assert publish(published.home).replaced
        stop.touch()
        out, errors = reader.communicate(timeout=PATIENCE_S)
    assert errors == ""
    seen = out.rsplit(" ", 1)[0]
    assert seen == "[(3, 3), (4, 4)]"
    assert reader.returncode == 0


HOLDER = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_second_publisher_waits_and_says_what_for(published: SmallLake) -> None:
    published.write_simple(published.gamma)
    with python(HOLDER, str(published.home / "locks" / "publish.lock")) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ParleyError, match=r"another process has been publishing .*publish\.lock"):
            publish(published.home, lock_timeout_s=0.2)
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert publish(published.home, lock_timeout_s=PATIENCE_S).replaced


PUBLISHER = """
import sys
from pathlib import Path
from warehouse.publish import publish
print(publish(Path(sys.argv[1]), marts=[Path(a) for a in sys.argv[2:]]).n_runs_published)
"""


def test_two_publishers_at_once_both_end_well(lake: SmallLake) -> None:
    with python(PUBLISHER, str(lake.home)) as first, python(PUBLISHER, str(lake.home)) as second:
        ended = [process.communicate(timeout=PATIENCE_S) for process in (first, second)]
    assert ended == [("3\n", ""), ("3\n", "")]
    assert query(lake.home, "select count(distinct run_id) from leaderboard")[1] == [(3,)]


def test_a_killed_publication_leaves_the_old_file_and_a_free_lock(published: SmallLake, tmp_path: Path) -> None:
    endless = tmp_path / "codeif_endless.sql"
    endless.write_text(
        "-- One row per run.\n"
        "select run_id, (select sum(hash(a.i + b.i)) from range(10000000) a(i), range(1000000) b(i)) as n from runs"
    )
    before = warehouse_path(published.home).read_bytes()
    published.write_simple(published.gamma)
    with python(PUBLISHER, str(published.home), str(endless)) as publisher:
        unfinished = published.home / "warehouse.duckdb.next"
        deadline = time.monotonic() + PATIENCE_S
        while not unfinished.exists() or unfinished.stat().st_size < len(before):
            assert time.monotonic() < deadline, "the publisher did not get to its work"
            assert publisher.poll() is None, publisher.communicate()
            time.sleep(0.02)
        os.kill(publisher.pid, signal.SIGKILL)
        publisher.wait(timeout=PATIENCE_S)
    assert unfinished.exists()
    assert warehouse_path(published.home).read_bytes() == before
    assert query(published.home, "select count(distinct run_id) from leaderboard")[1] == [(3,)]
    assert publish(published.home, lock_timeout_s=5).replaced
    assert query(published.home, "select count(distinct run_id) from leaderboard")[1] == [(4,)]
    assert sorted(path.name for path in published.home.glob("warehouse*")) == ["warehouse.duckdb"]

"""Readers, publishers and kills, each in a process of its own."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import duckdb
import pytest

from schemas.errors import ParleyError
from tests.warehouse.digests import table_digest
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import IA, INSTRUCTIONS, quality_check
from warehouse.connect import query, warehouse_path
from warehouse.publication.publish import publish

pytestmark = [pytest.mark.slow, pytest.mark.long]

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


N_PUBLICATIONS = 50
READER = """
import sys, time
from pathlib import Path
import duckdb
from warehouse.connect import connect
home, stop, run, plain = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "plain"
SAID = [
    "select right(night_id, 2)::double from runs where run_id = $run",
    "select max(value) from scores where run_id = $run",
    "select min(value) from scores where run_id = $run",
    "select mean from leaderboard where run_id = $run",
    "select max(mean) from pool_turn where run_id = $run",
    "select min(min) from pool_dataset where run_id = $run",
    "select count(*)::double from quality_checks where run_id = $run",
]
seen, ended, reads = [], False, open(sys.argv[5], "ab", buffering=0)
while not ended:
    ended = stop.exists()
    connection = duckdb.connect(str(home / "warehouse.duckdb"), read_only=True) if plain else connect(home)
    said = {connection.execute(sql, {"run": run}).fetchall()[0][0] for sql in SAID}
    connection.close()
    assert len(said) == 1, f"a mixed night: {said}"
    seen.append(said.pop())
    reads.write(b".")
    time.sleep(0.03)
assert seen == sorted(seen), "time went back"
print(int(seen[0]), int(seen[-1]), len(set(seen)), len(seen))
"""


def wait_for_reads(readers: "list[subprocess.Popen[str]]", reads: list[Path]) -> None:
    """Until each reader has read once more."""
    before = [n_reads_in(path) for path in reads]
    deadline = time.monotonic() + PATIENCE_S
    while not all(n_reads_in(path) > size for path, size in zip(reads, before, strict=True)):
        assert all(reader.poll() is None for reader in readers), [
            reader.communicate() for reader in readers
        ]
        assert time.monotonic() < deadline, "a reader waits"
        time.sleep(0.005)


def n_reads_in(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def write_generation(lake: SmallLake, number: int, *, n_long: int = 0) -> None:
    """A run of which every number says the generation: its scores, so all marts, and the rows of
    its checks.

    `n_long` further checks have texts that DuckDB cannot shorten. The file grows with them, and
    shrinks when they go.
    """
    run = lake.beta
    for table in ("scores", "quality_checks"):
        for old in (lake.home / "lake" / table).rglob(f"run={run.run_id}/*.parquet"):
            old.unlink()
    run.write(
        "scores",
        run.scores({(p, 0, 1): {IA: float(number)} for p in INSTRUCTIONS}),
        f"scores-{number}",
    )
    long = (hashlib.shake_256(b"%d" % n).hexdigest(1000) for n in range(n_long))
    checks = [quality_check(run)] * number + [
        quality_check(run).model_copy(update={"expectation": text}) for text in long
    ]
    run.write("quality_checks", checks, f"checks-{number}")
    run.write_record(finished_at=f"2026-02-01T00:00:{number:02d}Z", night_id=f"night-{number:02d}")


def test_readers_never_wait_fail_or_see_a_mixed_night_during_fifty_publications(
    published: SmallLake, tmp_path: Path
) -> None:
    """Each publication comes when each reader has read again since the last one; none waits for a
    publication.
    """
    stop, run = tmp_path / "stop", published.beta.run_id
    kinds, reads = ("ours", "ours", "plain"), [tmp_path / f"reads-{number}" for number in range(3)]
    write_generation(published, 1)
    publish(published.home)
    with ExitStack() as ended:
        readers = [
            ended.enter_context(
                python(READER, str(published.home), str(stop), run, kind, str(counted))
            )
            for kind, counted in zip(kinds, reads, strict=True)
        ]
        for number in range(2, N_PUBLICATIONS + 1):
            wait_for_reads(readers, reads)
            write_generation(published, number)
            assert publish(published.home).replaced
        wait_for_reads(readers, reads)
        stop.touch()
        said = [reader.communicate(timeout=PATIENCE_S) for reader in readers]
    for out, errors in said:
        assert errors == ""
        first, last, n_generations, n_reads = map(int, out.split())
        assert (first, last) == (1, N_PUBLICATIONS)
        assert n_generations >= N_PUBLICATIONS // 5, "it saw the night change while it read"
        assert n_reads >= N_PUBLICATIONS


HEADER_BYTES = 3 * 4096


def digests(path: Path) -> dict[str, str]:
    with duckdb.connect(str(path), read_only=True) as connection:
        tables = connection.execute("select table_name from duckdb_tables() order by 1").fetchall()
        return {table: table_digest(connection, table) for (table,) in tables}


def test_a_header_read_before_a_publication_finds_all_its_blocks_after_it(
    published: SmallLake, tmp_path: Path
) -> None:
    """DuckDB reads the header, opens the file by name again, and reads the rest."""
    path, mixed = warehouse_path(published.home), tmp_path / "mixed.duckdb"
    n_shorter = 0
    for number in range(1, 7):
        before, said = path.read_bytes(), digests(path)
        write_generation(published, number, n_long=6000 * (number % 3 == 2))
        assert publish(published.home).rebuilt_because is None
        after = path.read_bytes()
        n_shorter += after.endswith(b"blocks of the publication before\n")
        mixed.write_bytes(before[:HEADER_BYTES] + after[HEADER_BYTES:])
        assert digests(mixed) == said
        assert digests(path) != said
    assert n_shorter >= 2, "else this shows nothing"
    assert path.stat().st_size < 2 * len(before), "it does not grow for ever"


def test_what_another_program_wrote_where_old_blocks_were_kept_is_no_old_block(
    published: SmallLake,
) -> None:
    path, number = warehouse_path(published.home), 0
    while not path.read_bytes().endswith(b"blocks of the publication before\n"):
        number += 1
        write_generation(published, number, n_long=6000 * (number % 3 == 2))
        publish(published.home)
    mark = path.read_bytes().splitlines(keepends=True)[-1]
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table others as select hash(i) as n from range(100000) t(i)")
        said = connection.execute("select sum(n) from others").fetchall()
    path.write_bytes(path.read_bytes() + b"\n" + mark)
    write_generation(published, number + 1)
    assert publish(published.home).rebuilt_because is None
    assert query(published.home, "select sum(n) from others")[1] == said


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
        with pytest.raises(
            ParleyError, match=r"another process has been publishing .*publish\.lock"
        ):
            publish(published.home, lock_timeout_s=0.2)
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert publish(published.home, lock_timeout_s=PATIENCE_S).replaced


PUBLISHER = """
import sys
from pathlib import Path
from warehouse.publication.publish import publish
print(publish(Path(sys.argv[1]), marts=[Path(a) for a in sys.argv[2:]]).n_runs_published)
"""


def test_two_publishers_at_once_both_end_well(lake: SmallLake) -> None:
    with python(PUBLISHER, str(lake.home)) as first, python(PUBLISHER, str(lake.home)) as second:
        ended = [process.communicate(timeout=PATIENCE_S) for process in (first, second)]
    assert ended == [("3\n", ""), ("3\n", "")]
    assert query(lake.home, "select count(distinct run_id) from leaderboard")[1] == [(3,)]


def test_a_killed_publication_leaves_the_old_file_and_a_free_lock(
    published: SmallLake, tmp_path: Path
) -> None:
    endless = tmp_path / "codeif_endless.sql"
    endless.write_text(
        "-- One row per run.\n"
        "select run_id, (select sum(hash(a.i + b.i)) from range(10000000) a(i), "
        "range(1000000) b(i)) as n from runs"
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

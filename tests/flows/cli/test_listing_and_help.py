"""`parley list benchmarks` in one line a setting, and the help of `parley run` in panels, on a
terminal and in a pipe.
"""

import os
import pty
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.text.listings import benchmark_rows, described, printed_rows
from schemas.errors import UnknownName
from tasks.storage.home import Home
from tasks.storage.parquet_rows import n_rows
from tests.flows.parley_command import command, environment, parley
from tests.test_readme import command_tree

COMMON = (
    ("--subject", "--simulator", "--judge", "--dataset-version", "--option"),
    ("--limit", "--samples", "--concurrency", "--budget", "--dry-run"),
)


@pytest.mark.parametrize("n", [0, 1, 300, 70_000])
def test_the_rows_of_a_parquet_file_are_read_from_its_end(tmp_path: Path, n: int) -> None:
    columns = {"a": list(range(n)), "b": [[{"x": str(at), "y": [at % 2 == 0]}] for at in range(n)]}
    types = pa.schema(
        [
            ("a", pa.int64()),
            ("b", pa.list_(pa.struct([("x", pa.string()), ("y", pa.list_(pa.bool_()))]))),
        ]
    )
    pq.write_table(
        pa.table(columns, schema=types),
        tmp_path / "part.parquet",
        row_group_size=1000,
        compression="zstd",
    )
    assert n_rows(tmp_path / "part.parquet") == n


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"no parquet file at all", b"\x00\x01\x00\x00\x00PAR1"]
)
def test_what_is_no_parquet_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "part.parquet"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"part\.parquet"):
        n_rows(path)


def test_each_setting_is_one_line_with_the_rows_of_its_newest_edition(tmp_path: Path) -> None:
    folder = tmp_path / "lake" / "problems" / "benchmark=codeif" / "dataset=sample"
    folder.mkdir(parents=True)
    for at, n in enumerate((3, 1234)):
        part = folder / f"part-{9 - at}.parquet"
        pq.write_table(pa.table({"a": [0] * n}), part)
        os.utime(part, (at + 1, at + 1))
    rows = benchmark_rows(Home.at(tmp_path))
    heads, cells = printed_rows(rows)
    assert [cell[0] for cell in cells] == [row[0] for row in rows]
    assert len(heads) == 2
    assert next(cell[1] for cell in cells if cell[0] == "codeif.static").startswith(
        "sample (1,234), "
    )
    assert {row[3]["sample"] for row in rows if row[3]} == {1234}
    done = parley(tmp_path, "list", "benchmarks")
    table = [line for line in done.out.splitlines() if line.strip()]
    assert max(map(len, table)) <= 80
    assert [line.split()[0] for line in table[2:-1]] == [row[0] for row in rows]
    by_name = {
        row["setting"]: row for row in parley(tmp_path, "list", "benchmarks", "--json").json()
    }
    assert by_name["codeif.static"]["rows_staged"] == {"sample": 1234}


def test_a_name_brings_the_details_of_a_benchmark_or_a_setting(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    lines = list(described(home, "codeif"))
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.startswith("codeif.")] == [
        "codeif.static",
        "codeif.dynamic",
        "codeif.two_round",
    ]
    one = " ".join(described(home, "codeif.two_round"))
    assert "codeif.static" not in one
    assert "--option context_tokens" in one
    with pytest.raises(UnknownName, match="codeifs"):
        list(described(home, "codeifs"))
    assert parley(tmp_path, "list", "runs", "codeif").code == 2


def sections(text: str) -> dict[str, list[str]]:
    """Heading -> the flags below it."""
    found: dict[str, list[str]] = {}
    flags: list[str] = []
    for line in text.splitlines():
        heading = re.match(r"╭─ (.+?) ─|([A-Z][\w' ]+):$", line)
        if heading:
            flags = found.setdefault(heading[1] or heading[2], [])
        elif flag := re.match(r"(?:│|  ?) ?(--[\w-]+)", line):
            flags.append(flag[1])
    return found


@pytest.mark.slow
def test_the_common_options_come_first_and_the_others_in_panels(tmp_path: Path) -> None:
    plain = sections(parley(tmp_path, "run", "--help").out)
    names = list(plain)
    assert names[:2] == ["Arguments", "Options"]
    assert plain["Options"][:10] == [*COMMON[0], *COMMON[1]]
    assert {"Subject's endpoint", "Subject's answers", "Embedder", "Quality checks"} <= set(names)
    ours, theirs = pty.openpty()
    os.set_inheritable(theirs, True)
    environ = environment(tmp_path, {"COLUMNS": "80", "TERM": "xterm"})
    process = subprocess.Popen(
        command("run", "--help"), stdout=theirs, stderr=theirs, stdin=theirs, env=environ
    )
    os.close(theirs)
    parts: list[bytes] = []
    while True:
        try:
            parts.append(os.read(ours, 65_536))
        except OSError:  # Linux: the other end is closed
            break
    os.close(ours)
    assert process.wait(60) == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", b"".join(parts).decode())
    assert max(map(len, shown.splitlines())) <= 80
    drawn = sections(shown)
    seen, wanted = (
        {name: {flag[:12] for flag in flags} - {"--help"} for name, flags in one.items()}
        for one in (drawn, plain)
    )
    assert seen == wanted  # a panel folds long flags
    assert "bge-m3[@FOLDER]" in shown  # no markup is lost


def test_no_line_of_the_list_of_commands_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, ["--help"]).output.partition("Commands:")[2]
    assert all(f"\n  {name} " in shown for name in command_tree().commands)
    assert [line for line in shown.splitlines() if line.rstrip().endswith("...")] == []

"""What a quick command may not import: modules that cost more than all the rest of such a command.

No time is measured.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.parley_command import PROFILED, environment, imported, parley_process
from tests.warehouse.small_lake import SmallLake
from warehouse.publication.publish import publish

ORCHESTRATION = ("prefect", "distributed", "great_expectations", "openai", "aiohttp")
NUMBERS = ("pandas", "scipy", "sqlalchemy")
EVERYTHING = (*ORCHESTRATION, *NUMBERS, "pyarrow", "numpy", "duckdb", "rich", "yaml", "filelock")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = SmallLake(tmp_path_factory.mktemp("quick") / "home").write_all().home
    publish(home)
    return home


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (("--help",), (*EVERYTHING, "pydantic")),
        (("--version",), (*EVERYTHING, "pydantic")),
        (("run", "--help"), EVERYTHING),
        (
            ("list", "benchmarks"),
            tuple(name for name in EVERYTHING if name not in ("rich", "yaml")),
        ),
        (("list", "metrics"), tuple(name for name in EVERYTHING if name not in ("rich", "yaml"))),
        (("list", "builds"), tuple(name for name in EVERYTHING if name not in ("rich", "yaml"))),
        (("list", "runs"), (*ORCHESTRATION, *NUMBERS, "numpy", "duckdb")),
        (("list", "models", "--json"), (*ORCHESTRATION, *NUMBERS, "numpy", "duckdb", "rich")),
        (("list", "episodes", "--first"), (*ORCHESTRATION, *NUMBERS, "numpy", "duckdb", "rich")),
        (("sql", "SELECT 1", "--json"), tuple(name for name in EVERYTHING if name != "duckdb")),
    ],
    ids=lambda value: " ".join(value[:2]),
)
def test_a_quick_command_imports_nothing_heavy(
    published: Path, arguments: tuple[str, ...], unneeded: tuple[str, ...]
) -> None:
    done = parley_process(published, *arguments, environ=PROFILED)
    assert imported(done) & set(unneeded) == set()


@pytest.mark.slow
def test_a_transcript_is_shown_without_anything_heavy(published: Path) -> None:
    episode = parley_process(published, "list", "episodes", "--first").out.strip()
    done = parley_process(published, "show", episode, environ=PROFILED)
    assert imported(done) & {*ORCHESTRATION, *NUMBERS, "numpy", "duckdb"} == set()


@pytest.mark.slow
def test_what_is_imported_is_seen(published: Path) -> None:
    found = imported(parley_process(published, "sql", "SELECT 1", environ=PROFILED))
    assert {"duckdb", "rich", "pydantic", "flows"} <= found
    assert "pyarrow" in imported(parley_process(published, "list", "runs", environ=PROFILED))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "listed"),
    [
        ("parley run codeif.", "benchmarks"),
        ("parley why-rerun ", "runs"),
        ("parley show ", "episodes"),
    ],
)
def test_a_shell_completes_names(published: Path, line: str, listed: str) -> None:
    words = {
        "_PARLEY_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    script = Path(sys.executable).with_name("parley")
    done = subprocess.run(
        [script],
        capture_output=True,
        text=True,
        check=True,
        env=environment(published, words),
        timeout=120,
    )
    rows = parley_process(published, "list", listed, "--json").json()
    beginning = line.rpartition(" ")[2]
    names = sorted(
        {name for row in rows if (name := next(iter(row.values()))).startswith(beginning)}
    )
    assert names
    assert done.stdout.split("\n")[: len(names)] == names

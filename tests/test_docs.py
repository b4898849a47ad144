"""The documentation builds with every link whole, says what the code says, and names modules that
exist.
"""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from schemas.lake.tables import TABLES
from tasks.metrics.registry import METRICS
from tests.documentation import generate, generated_pages
from tests.own_files import ROOT, own_files, relative
from tests.test_readme import command_tree

DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
DOTTED = re.compile(r"`((?:schemas|sandbox|tasks|warehouse|flows)(?:\.\w+)*)`")
STATUS = re.compile(
    r"Status: (?:accepted|(?:accepted; )?superseded by \[(\d{4})\]\(\1-[a-z0-9-]+\.md\)(?: "
    r"for the .+)?)"
)
MKDOCS = pytest.mark.skipif(
    find_spec("mkdocs") is None, reason="mkdocs is not installed: make docs"
)


def built(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build the documentation of a checkout as `make docs` does, into another folder."""
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out))
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240)


@MKDOCS
@pytest.mark.slow
def test_the_documentation_builds_with_every_link_whole(tmp_path: Path) -> None:
    done = built(ROOT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in generate().sources().values():
        place = page.removesuffix(".md").removesuffix("index") if page.endswith(".md") else page
        assert (tmp_path / place).exists(), page


@MKDOCS
@pytest.mark.slow
def test_a_link_to_a_missing_heading_fails_the_build(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name in (
        "docs",
        "flows/text/topics",
        "tasks/benchmarks",
        "warehouse",
        "mkdocs.yml",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
    ):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
    page = copy / "flows" / "text" / "topics" / "models.md"
    page.write_text(
        page.read_text(encoding="utf-8") + "\n[gone](vllm.md#no-such-heading)\n", encoding="utf-8"
    )
    done = built(copy, tmp_path / "site")
    assert done.returncode == 1
    assert "no-such-heading" in done.stdout + done.stderr


def test_links_become_those_of_the_site() -> None:
    pages = {
        "flows/text/topics/a.md": "how-to/a.md",
        "tasks/benchmarks/b/README.md": "benchmarks/b.md",
    }
    code = "[c](../gone.py), `[no](x)`\n```\n[no](y)\n```"
    text = (
        "[b](../../../tasks/benchmarks/b/README.md#top), [`code`](../work.py), "
        f"[`flows/text/work.py`](../work.py), {code}"
    )
    assert generate().rewritten(text, "flows/text/topics/a.md", "how-to/a.md", pages) == (
        f"[b](../benchmarks/b.md#top), `code` (`flows/text/work.py`), `flows/text/work.py`, {code}"
    )


def test_the_reference_has_every_command_table_column_metric_and_exit_code() -> None:
    pages = generated_pages()
    shown = {name for name, command in command_tree().commands.items() if not command.hidden}
    assert shown <= {
        line.split()[2]
        for line in pages["reference/cli.md"].splitlines()
        if line.startswith("## parley ")
    }
    assert "`--dry-run`" in pages["reference/cli.md"]
    sections = dict(part.split("\n", 1) for part in pages["reference/tables.md"].split("\n## ")[1:])
    assert {
        name: re.findall(r"^\| `(\w+)`", text, re.MULTILINE) for name, text in sections.items()
    } == {name: table.schema.names for name, table in TABLES.items()}
    for page in ("reference/tables.md", "reference/results.md"):
        assert [
            line
            for line in pages[page].splitlines()
            if line.startswith("| `") and line.endswith("|  |")
        ] == [], page
    assert "### results" in pages["reference/results.md"]
    assert "### codeif_turns" in pages["reference/results.md"]
    assert re.findall(r"^### (.+)$", pages["reference/metrics.md"], re.MULTILINE)
    ours = {
        name
        for name in METRICS.names()
        if METRICS.load(name).function.__module__.startswith("tasks.metrics.")
    }
    on_page = set(re.findall(r"^### (.+)$", pages["reference/metrics.md"], re.MULTILINE))
    # Benchmarks in one file that other tests of this process ran have metrics of their own.
    assert ours <= on_page <= set(METRICS.names())
    assert re.findall(r"^\| \*\*(\d)\*\*", pages["reference/exit-codes.md"], re.MULTILINE) == list(
        "012345"
    )


def test_the_reference_of_the_configuration_shows_types_defaults_and_docstrings() -> None:
    page = generated_pages()["reference/configuration.md"]
    assert (
        "| `concurrency` | `int` | `64` | Maximum number of model requests in flight to one "
        "endpoint. |"
    ) in page
    assert "## ModelRequest" in page
    assert "## CheckpointSource" in page


def test_every_module_of_the_architecture_exists() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    in_pictures = [
        name
        for picture in re.findall(r"^```mermaid\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for name in re.findall(r"\b(?:schemas|sandbox|tasks|warehouse|flows)(?:\.\w+)+", picture)
        if name != "warehouse.duckdb"
    ]
    assert len(in_pictures) > 6
    names = [*DOTTED.findall(text), *in_pictures]
    assert len(names) > 20
    paths = {name: ROOT / name.replace(".", "/") for name in names}
    assert [
        name
        for name, path in paths.items()
        if not path.is_dir() and not path.with_suffix(".py").is_file()
    ] == []


def test_every_module_and_query_that_a_readme_names_exists() -> None:
    paths = [f"/{relative(path)}" for path in own_files()]
    named = {
        (relative(readme), name)
        for readme in own_files()
        if readme.name == "README.md"
        for name in re.findall(
            r"`((?:[\w.]+/)*\w+\.(?:py|sql))`", readme.read_text(encoding="utf-8")
        )
    }
    assert len(named) > 150
    missing = [
        (readme, name)
        for readme, name in sorted(named)
        if not any(path.endswith(f"/{name.replace('../', '')}") for path in paths)
        and Path(name).name not in ("NAME.py", "runtests.py")  # a placeholder, and Django's runner
    ]
    assert missing == []


def test_every_decision_has_a_number_a_title_and_a_status() -> None:
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    for path in DECISIONS:
        title, empty, status = path.read_text(encoding="utf-8").splitlines()[:3]
        assert title.startswith(f"# {int(path.name[:4])}. "), path.name
        assert (empty, bool(STATUS.fullmatch(status))) == ("", True), path.name
        [*newer] = STATUS.findall(status)
        assert all(not number or int(number) > int(path.name[:4]) for number in newer), path.name

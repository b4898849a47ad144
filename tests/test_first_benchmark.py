"""The page that builds a benchmark from an empty folder does what it says: its files, commands and
outputs are run.
"""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.own_files import ROOT

PAGE = ROOT / "flows" / "text" / "topics" / "first-benchmark.md"
FENCE = re.compile(
    r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ANY_LINES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_page(text: str, folder: Path) -> list[str]:
    """Write the files of a page's fences into the folder, run the commands, and return outputs that
    differ from the page's.
    """
    (folder / "bin").mkdir()
    command = folder / "bin" / "parley"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m flows.cli "$@"\n')
    command.chmod(0o755)
    paths = {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PARLEY_HOME": str(folder / ".parley"),
    }
    printed, differing = "", []
    for fence in FENCE.finditer(text):
        kind, content = fence["kind"], fence["text"]
        if fence["title"]:
            (folder / fence["title"]).write_text(content, encoding="utf-8")
        elif kind == "bash":
            done = subprocess.run(
                ["bash", "-e"],
                input=content,
                cwd=folder,
                env={**os.environ, **paths},
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert done.returncode == 0, f"{content}{done.stdout}{done.stderr}"
            printed = done.stdout
        elif kind == "text" and not doctest.OutputChecker().check_output(
            content, printed, ANY_LINES
        ):
            differing.append(f"the page says:\n{content}\nprinted was:\n{printed}")
    return differing


@pytest.mark.slow
def test_each_step_of_the_page_prints_what_the_page_shows(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    kinds = [fence["kind"] for fence in FENCE.finditer(text)]
    assert kinds.count("bash") == kinds.count("text") == 5
    assert run_page(text, tmp_path) == []


def test_an_output_that_differs_is_found(tmp_path: Path) -> None:
    page = '```text title="a.txt"\none\n```\n```bash\ncat a.txt\n```\n```text\n{}\n```\n'
    for number, (shown, n_wrong) in enumerate((("one", 0), ("...", 0), ("two", 1))):
        (tmp_path / str(number)).mkdir()
        assert len(run_page(page.format(shown), tmp_path / str(number))) == n_wrong

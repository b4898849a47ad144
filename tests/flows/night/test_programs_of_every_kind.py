"""Nights whose programs need a check, a tree, node and a JDK: each gets its verdict; what lacks its
tool or tree is unscored.
"""

import os
import shutil
from pathlib import Path

import pytest

from tests.crash.night import write_plugin
from tests.flows.drivers import ROOT
from tests.flows.parley_command import parley_process
from tests.tasks.benchmarks.polyglot import TREE, TREES
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
TOOLS = ("node", "javac", "java")
VERDICTS = (
    "SELECT problem_id, instruction_id, outcome, reason, n_cases, n_passed FROM test_verdicts "
    "WHERE run_id = '{}' ORDER BY 1, 2"
)
PYTHON = [
    ("asserts", "base", "failed", None, 2, 1),
    ("check", "base", "passed", None, 1, 1),
]
IN_A_TREE = [
    ("tree", "adds", "passed", None, 2, 2),
    ("tree", "negates", "failed", None, 1, 0),
]


def play(home: Path, plugins: Path, trees: Path, sandbox: str) -> list[tuple[object, ...]]:
    environ = {"PYTHONPATH": os.pathsep.join((str(plugins), str(ROOT))), TREES: str(trees)}
    command = (
        "run",
        "polyglot.ask",
        "--model",
        "control:gold",
        "--workers",
        "1",
        "--sandbox",
        sandbox,
        "--json",
    )
    said = parley_process(home, *command, environ=environ).json()
    assert said["published"], said
    assert (said["n_infra"], said["owed"]) == (0, 0)
    return query(home, VERDICTS.format(said["run_id"]))[1]


def test_each_is_judged_and_what_lacks_its_tool_or_tree_is_unscored(
    served_home: Path, tmp_path: Path
) -> None:
    trees, plugins = tmp_path / "tree", tmp_path / "plugins"
    trees.mkdir()
    for name, text in TREE.items():
        (trees / name).write_text(text, encoding="utf-8")
    write_plugin(plugins, "polyglot", "tests.tasks.benchmarks.polyglot:BENCHMARK")
    with (plugins / "parley_polyglot-1.dist-info" / "entry_points.txt").open("a") as file:
        file.write(
            "[parley.sandboxes]\nbare = tests.sandbox.without_toolchains:WithoutToolchains\n"
        )
    missing = ("base", "unscored", "toolchain_missing", None, None)
    there = all(shutil.which(tool) for tool in TOOLS)
    compiled = ("base", "passed", None, 1, 1) if there else missing
    asserts, check = PYTHON
    assert play(served_home, plugins, trees, "zygote") == [
        asserts,
        check,
        ("java", *compiled),
        ("node", *compiled),
        *IN_A_TREE,
    ]
    without = [
        ("tree", name, "unscored", "source_missing", None, None) for name in ("adds", "negates")
    ]
    assert play(served_home, plugins, tmp_path / "gone", "bare") == [
        asserts,
        check,
        ("java", *missing),
        ("node", *missing),
        *without,
    ]

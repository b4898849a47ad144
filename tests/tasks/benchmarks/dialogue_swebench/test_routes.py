"""Which runner an instance's tests have: of its row's command, its project's version, or its
ids.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.dialogue_swebench.raw_row import route_of
from tasks.benchmarks.dialogue_swebench.resources import resolve_resources
from tasks.benchmarks.dialogue_swebench.stage import stage
from tasks.benchmarks.raw_rows import BadRow
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench import make_specs
from tests.tasks.benchmarks.dialogue_swebench.graded import SAMPLE

NODE, UNIT = "tests/test_x.py::test_a", "test_a (x.tests.B)"
ROWS = [
    json.loads(line) for line in (SAMPLE / "sample.jsonl").read_text(encoding="utf-8").splitlines()
]
VERIFIED = {
    "astropy/astropy": 22,
    "django/django": 231,
    "matplotlib/matplotlib": 34,
    "mwaskom/seaborn": 2,
    "pallets/flask": 1,
    "psf/requests": 8,
    "pydata/xarray": 22,
    "pylint-dev/pylint": 10,
    "pytest-dev/pytest": 19,
    "scikit-learn/scikit-learn": 32,
    "sphinx-doc/sphinx": 44,
    "sympy/sympy": 75,
}
"""Instances of SWE-bench Verified by project."""


def test_django_and_sympy_have_their_own_runners() -> None:
    django = route_of("django/django", "3.1", (UNIT,))
    assert (django.runner, django.python) == ("django", "3.6")
    assert django.command == (
        "tests/runtests.py",
        "--verbosity",
        "2",
        "--settings=test_sqlite",
        "--parallel",
        "1",
    )
    assert django.variables == ()
    sympy = route_of("sympy/sympy", "1.9", ("test_a",))
    assert (sympy.runner, sympy.command, sympy.python) == (
        "sympy",
        ("bin/test", "-C", "--verbose"),
        "3.9",
    )
    assert sympy.variables == (("PYTHONWARNINGS", "ignore::UserWarning,ignore::SyntaxWarning"),)
    assert route_of("django/django", "2.2", (UNIT,)).variables == (("PYTHONIOENCODING", "utf8"),)


@pytest.mark.parametrize(
    ("repo", "version", "ids", "runner"),
    [
        ("sphinx-doc/sphinx", "3.1", (NODE,), ""),
        ("a/b", "", (NODE,), ""),
        ("psf/requests", "2.0", ("test_requests.py::T::t",), ""),
    ],
)
def test_others_have_pytest(repo: str, version: str, ids: tuple[str, ...], runner: str) -> None:
    found = route_of(repo, version, ids)
    assert (found.runner, found.command, found.variables) == (runner, (), ())


@pytest.mark.parametrize(
    ("command", "runner", "words"),
    [
        ("python -m unittest -v", "unittest", ("-m", "unittest", "-v")),
        ("A=1 python3.8 -m unittest", "unittest", ("-m", "unittest")),
        (
            "python tests/runtests.py --parallel 1",
            "django",
            ("tests/runtests.py", "--parallel", "1"),
        ),
        ("./bin/test -C", "sympy", ("bin/test", "-C")),
    ],
)
def test_a_row_names_its_command(command: str, runner: str, words: tuple[str, ...]) -> None:
    found = route_of("a/b", "1", (UNIT,), command)
    assert (found.runner, found.command) == (runner, words)
    assert dict(found.variables) == ({"A": "1"} if command.startswith("A") else {})


@pytest.mark.parametrize(
    ("repo", "ids", "command"),
    [
        ("a/b", (UNIT,), ""),
        ("sphinx-doc/sphinx", (UNIT,), ""),
        ("a/b", (NODE,), "make test"),
        ("a/b", (NODE,), "test"),
        ("a/b", (NODE,), "'"),
        ("a/b", (UNIT,), "pytest -rA"),
    ],
)
def test_what_no_runner_can_run_is_refused(repo: str, ids: tuple[str, ...], command: str) -> None:
    with pytest.raises(BadRow) as caught:
        route_of(repo, "3.1", ids, command)
    assert caught.value.reason == "runner_unknown"


def test_each_project_of_verified_has_a_way_in_all_its_versions() -> None:
    projects: Any = json.loads(make_specs.PATH.read_text(encoding="utf-8"))["projects"]
    n = {"": 0, "django": 0, "sympy": 0}
    for repo, n_instances in VERIFIED.items():
        ids = (NODE,) if repo not in ("django/django", "sympy/sympy") else (UNIT,)
        runners = {
            route_of(repo, version, ids).runner
            for spec in projects[repo]["specs"]
            for version in spec["versions"]
        }
        assert len(runners) == 1
        n[runners.pop()] += n_instances
    assert n == {"": 194, "django": 231, "sympy": 75}


def test_the_file_is_what_its_script_makes() -> None:
    if importlib.util.find_spec("swebench") is None:
        pytest.skip("the package `swebench` 4.1.0 is not installed")
    from importlib.metadata import version

    if version("swebench") != make_specs.RELEASE:
        pytest.skip(
            f"swebench is {version('swebench')}; the constants are those of {make_specs.RELEASE}"
        )
    assert make_specs.made() == make_specs.PATH.read_text(encoding="utf-8")


def test_rows_without_a_way_are_quarantined_before_anything_is_asked(tmp_path: Path) -> None:
    other = {
        **ROWS[0],
        "instance_id": "o",
        "FAIL_TO_PASS": json.dumps([UNIT]),
        "PASS_TO_PASS": "[]",
    }
    django = {**other, "instance_id": "d", "repo": "django/django", "version": "3.1"}
    named = {**other, "instance_id": "n", "test_cmd": "python -m unittest -v"}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in (ROWS[0], other, django, named)))
    staged = stage(path, "x")
    assert [(row.reason, row.source_line) for row in staged.quarantined] == [("runner_unknown", 2)]
    ways = [
        (problem.repo.runner, problem.repo.command[:2])
        for problem in staged.problems
        if problem.repo
    ]
    assert ways == [
        ("", ()),
        ("django", ("tests/runtests.py", "--verbosity")),
        ("unittest", ("-m", "unittest")),
    ]


def test_an_environment_without_its_python_and_tests_of_web_pages_are_quarantined(
    tmp_path: Path,
) -> None:
    environments = {
        "another project's": {
            "repo": "a/b",
            "versions": ["1.0"],
            "requirements": ["pytest==8.3.2"],
        },
        "old": {"versions": ["1.0"], "python": "3.99", "requirements": ["pytest==8.3.2"]},
        "own": {"requirements": ["pytest==8.3.2"]},
    }
    instances = {
        ROWS[1]["instance_id"]: {"environment": "own", "web_tests": ["t"]},
        ROWS[2]["instance_id"]: {"environment": "own"},
    }
    path = tmp_path / "pins.json"
    path.write_text(
        json.dumps({"python": "3.11", "environments": environments, "instances": instances})
    )
    resources = {"repos": SAMPLE / "repos", "environments": path}
    staged = resolve_resources(
        stage(SAMPLE / "sample.jsonl", "x"), None, resources, Home(tmp_path / "home")
    )
    assert [row.reason for row in staged.quarantined] == ["python_missing", "network_missing"]
    assert [problem.problem_id for problem in staged.problems] == [ROWS[2]["instance_id"]]

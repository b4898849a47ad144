"""Real projects whose instances the tests grade, and what the tests of all of them share.

`PARLEY_<PROJECT>` names a folder with the project's repository, `PARLEY_<PROJECT>_HOME` the folder
that keeps trees and environments between runs, and `PARLEY_<PROJECT>_INSTANCES=all` grades all
instances in place of two.
"""

import csv
import difflib
import json
import os
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandbox.host.slots import slot_count
from schemas.problem import Problem
from schemas.verdict import Outcome, ProgramVerdict
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.dialogue_swebench.resources import resolve_resources
from tasks.benchmarks.dialogue_swebench.stage import stage
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import grade

HERE = Path(__file__).parent
_SETTINGS = {name: value for name, value in os.environ.items() if name.startswith("PARLEY_")}
"""Read before any test begins: tests see no variable of ours."""


@dataclass(frozen=True)
class Project:
    """One project with real instances."""

    name: str
    repo: str
    pins: Path
    """File of environments, as `--resource environments=` takes it; relative to the shared data
    where it is not absolute.
    """
    two: tuple[str, str]
    """Instances that are graded unless all are asked for."""
    cheated: str
    """Instance whose fix the cheats leave out."""
    cheats: Mapping[str, tuple[str, str]]
    """What a cheat does -> file and lines.

    The lines go to the end of a file of the base commit, or into a new one.
    """
    tests: str = "*/tests/*"
    """Git's pattern of the project's test files."""
    rows: Path | None = None
    """Facts about fixes whose patches are read from the repository; None for the published rows of
    the shared data.
    """
    passes_before_the_fix: Mapping[str, Collection[str]] = field(
        default_factory=dict[str, Collection[str]]
    )
    """Instance -> tests of FAIL_TO_PASS that pass with the empty patch; `README.md` has the
    reasons.
    """

    def _setting(self, end: str = "") -> str:
        return _SETTINGS.get(f"PARLEY_{self.name.upper()}{end}", "")

    @property
    def is_asked_for_all(self) -> bool:
        """Whether all instances are graded."""
        return self._setting("_INSTANCES") == "all"

    @property
    def repository(self) -> Path:
        """The folder with the repository. Skips the test where none is named."""
        if not self._setting():
            pytest.skip(
                f"PARLEY_{self.name.upper()} names no folder with the repository of {self.name}"
            )
        return Path(self._setting())

    def home(self, otherwise: Path) -> Home:
        """Return the home that keeps what is built, or a fresh one."""
        return Home(Path(self._setting("_HOME") or otherwise))

    def data(self, shared: Path, folder: Path, only: Collection[str] = ()) -> Path:
        """Return a file of the project's instances, written into `folder`.

        Args:
            only: ids of the instances; empty for all.
        """
        rows = self._published(shared) if self.rows is None else self._made()
        path = folder / f"{self.name.lower()}.jsonl"
        chosen = [row for row in rows if not only or row["instance_id"] in only]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in chosen), encoding="utf-8")
        return path

    def resources(self, shared: Path) -> dict[str, Path]:
        """Return the repository and the environments, as a run takes them."""
        return {"repos": self.repository, "environments": shared / self.pins}

    def staged(self, shared: Path, folder: Path, home: Home) -> Staged:
        """Stage all instances, with their trees in the home."""
        data = self.data(shared, folder)
        return resolve_resources(stage(data, "x"), data, self.resources(shared), home)

    def cheating_patches(self, home: Home, problem: Problem) -> dict[str, str]:
        """Return the patch of each cheat, by what it does."""
        return {
            does: _appended(home, problem, path, lines)
            for does, (path, lines) in self.cheats.items()
        }

    def _published(self, shared: Path) -> Iterator[dict[str, Any]]:
        with (shared / "swebench_verified_mini" / "data.csv").open(
            encoding="utf-8", newline=""
        ) as file:
            yield from (row for row in csv.DictReader(file) if row["repo"] == self.repo)

    def _made(self) -> Iterator[dict[str, Any]]:
        assert self.rows is not None
        git_directory = next(
            path for path in sorted(self.repository.iterdir()) if (path / "HEAD").is_file()
        )
        for row in json.loads(self.rows.read_text(encoding="utf-8")):
            commits = row["base_commit"], row["fix"]
            yield {
                **{
                    name: row[name]
                    for name in (
                        "instance_id",
                        "version",
                        "base_commit",
                        "FAIL_TO_PASS",
                        "PASS_TO_PASS",
                    )
                },
                "repo": self.repo,
                "problem_statement": row["title"],
                "patch": _diff(git_directory, commits, ".", f":(exclude){self.tests}"),
                "test_patch": _diff(git_directory, commits, self.tests),
            }


def check_ends(project: Project, home: Home, problems: Mapping[str, Problem]) -> None:
    """Assert that gold resolves each instance and that the empty patch fails just the tests that
    the fix mends.
    """
    names = list(problems) if project.is_asked_for_all else list(project.two)
    for name, (gold, empty) in zip(
        names, graded_ends(home, [problems[name] for name in names]), strict=True
    ):
        problem = problems[name]
        assert problem.repo is not None
        assert (gold.outcome, gold.detail) == (Outcome.PASSED, ""), name
        assert failed_cases(empty) == set(problem.repo.fail_to_pass) - set(
            project.passes_before_the_fix.get(name, ())
        ), name
        assert (empty.outcome, empty.reason) == (Outcome.FAILED, None)


def graded_ends(
    home: Home, problems: Sequence[Problem]
) -> Iterator[tuple[ProgramVerdict, ProgramVerdict]]:
    """Yield the verdicts on each instance's gold and on the empty patch, graded as many at once as
    the host has slots.
    """
    with ThreadPoolExecutor(slot_count()) as threads:
        gold = [
            threads.submit(grade, home, problem, problem.reference_code) for problem in problems
        ]
        empty = [threads.submit(grade, home, problem, "") for problem in problems]
        yield from ((one.result(), other.result()) for one, other in zip(gold, empty, strict=True))


def failed_cases(verdict: ProgramVerdict) -> set[str]:
    """Return the names of the tests that did not pass."""
    return {case.name for case in verdict.cases if case.outcome is not Outcome.PASSED}


def _diff(git_directory: Path, commits: tuple[str, str], *paths: str) -> str:
    argv = ("git", "--git-dir", str(git_directory), "diff", *commits, "--", *paths)
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def _appended(home: Home, problem: Problem, path: str, lines: str) -> str:
    """Return the patch that adds lines to the end of a file of the base commit, or makes the
    file.
    """
    assert problem.repo is not None
    trees = TreeStore(home.trees)
    there = trees.files(problem.repo.tree, [path])
    before = trees.get(there[path].what).decode().splitlines(keepends=True) if there else []
    after = [*before, *lines.splitlines(keepends=True)]
    return "".join(
        difflib.unified_diff(before, after, f"a/{path}" if there else "/dev/null", f"b/{path}")
    )


DJANGO = Project(
    name="Django",
    repo="django/django",
    pins=HERE / "django.json",
    two=("django__django-11951", "django__django-12039"),
    cheated="django__django-12039",
    passes_before_the_fix={
        "django__django-11848": {
            "test_parsing_year_less_than_70 (utils_tests.test_http.HttpDateProcessingTests)"
        },
        "django__django-11964": {"test_textchoices (model_enums.tests.ChoicesTests)"},
        "django__django-12308": {"test_label_for_field (admin_utils.tests.UtilsTests)"},
        "django__django-12406": {
            "test_clean_model_instance (model_forms.test_modelchoicefield.ModelChoiceFieldTests)"
        },
    },
    cheats={
        "the module exits well": ("django/__init__.py", "import os\nos._exit(0)\n"),
        "the result class reports passes": (
            "django/__init__.py",
            "import unittest\nunittest.TextTestRunner.resultclass = type('R', "
            "(unittest.TextTestResult,), {\n"
            "    'addFailure': lambda self, test, err: self.addSuccess(test),\n"
            "    'addError': lambda self, test, err: self.addSuccess(test)})\n",
        ),
        "the log has passing lines": (
            "django/__init__.py",
            "import sys\nsys.stderr.write('test_autoincrement (x) ... ok\\n' * 9)\nimport "
            "unittest\n"
            "unittest.TestCase.run = lambda self, result=None: None\n",
        ),
    },
)
SYMPY = Project(
    name="SymPy",
    repo="sympy/sympy",
    pins=HERE / "sympy.json",
    rows=HERE / "sympy_rows.json",
    two=("parley__sympy-863f520", "parley__sympy-94b7eb8"),
    cheated="parley__sympy-863f520",
    cheats={
        "the package exits well": (
            "sympy/__init__.py",
            "import os\nprint('test_as_set ok', flush=True)\nos._exit(0)\n",
        ),
        "the reporter calls failures passes": (
            "sympy/__init__.py",
            "import sys\nfrom sympy.testing import runtests\n"
            "runtests.PyTestReporter.test_fail = lambda self, exc: self.test_pass()\n"
            "runtests.PyTestReporter.test_exception = lambda self, exc: self.test_pass()\n",
        ),
        "the runner runs no test": (
            "sympy/__init__.py",
            (
                "from sympy.testing import runtests\nruntests.SymPyTests.test_file = lambda "
                "self, *a, **k: None\n"
            ),
        ),
    },
)
REQUESTS = Project(
    name="Requests",
    repo="psf/requests",
    pins=HERE / "requests.json",
    rows=HERE / "requests_rows.json",
    tests="test_requests.py",
    two=("parley__requests-29ef108", "parley__requests-d2f647c"),
    cheated="parley__requests-29ef108",
    cheats={
        "the package exits well": ("requests/__init__.py", "import os\nos._exit(0)\n"),
        "pytest is asked for nothing": ("setup.cfg", "[tool:pytest]\naddopts = --collect-only\n"),
        "a conftest prints passes and exits": (
            "conftest.py",
            (
                "import os\nprint('PASSED "
                "test_requests.py::TestTimeout::test_encoded_methods')\nos._exit(0)\n"
            ),
        ),
    },
)
SPHINX = Project(
    name="Sphinx",
    repo="sphinx-doc/sphinx",
    pins=Path("swebench_sphinx") / "environments.json",
    two=("sphinx-doc__sphinx-8265", "sphinx-doc__sphinx-9367"),
    cheated="sphinx-doc__sphinx-8265",
    cheats={
        "a conftest prints passes and exits": (
            "tests/sub/conftest.py",
            "import os\nprint('PASSED tests/test_pycode_ast.py::test_unparse')\nos._exit(0)\n",
        ),
        "the package exits well": ("sphinx/__init__.py", "import os\nos._exit(0)\n"),
        "the package ends pytest": (
            "sphinx/__init__.py",
            "import pytest\npytest.exit('done', returncode=0)\n",
        ),
    },
)

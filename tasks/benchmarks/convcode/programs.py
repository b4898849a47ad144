"""Test runs: each round's code with the problem's complete test suite.

All tests run even if the setting shows only some of them.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping

from sandbox.judging.runners.programs import parse
from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.program_runs import base_program
from tasks.benchmarks.setting import Options


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return one test run per round. `code` is None for a round without answer."""
    suite = problem.instruction(BASE_INSTRUCTION).suite
    rounds = max((step.turn for step in episode.messages), default=0)
    answers = ((turn, episode.answer(turn)) for turn in range(1, rounds + 1))
    return tuple(
        TestRun.of(
            turn,
            BASE_INSTRUCTION,
            None if answer is None else base_program(problem, answer, options),
            suite.tests,
            suite.kind,
            reference=problem.reference_code,
        )
        for turn, answer in answers
    )


def code_of(problem: Problem, options: Options, answer: str) -> str:
    """Return the code of an answer's program, extracted according to the run's option."""
    return base_program(problem, answer, options).code


_DISTRIBUTIONS: Mapping[str, str] = {
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dns": "dnspython",
    "django": "Django",
    "docx": "python-docx",
    "faker": "Faker",
    "flask": "Flask",
    "flask_login": "Flask-Login",
    "flask_mail": "Flask-Mail",
    "flask_restful": "Flask-RESTful",
    "flask_wtf": "Flask-WTF",
    "mpl_toolkits": "matplotlib",
    "PIL": "Pillow",
    "pkg_resources": "setuptools",
    "python_http_client": "python-http-client",
    "requests_mock": "requests-mock",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "werkzeug": "Werkzeug",
    "wtforms": "WTForms",
    "yaml": "PyYAML",
}
MODULES: Mapping[str, str] = {
    distribution: module
    for module, distribution in _DISTRIBUTIONS.items()
    if module != "mpl_toolkits"
}
"""Module name of each distribution whose module has another name."""


def imported_modules(program: str) -> Iterator[str]:
    """Yield the modules imported anywhere in a program.

    Raises:
        SyntaxError: The program is not Python.
    """
    for node in ast.walk(parse(program)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def distributions(modules: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted distributions of the modules outside the standard library."""
    tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    return tuple(sorted({_DISTRIBUTIONS.get(top, top) for top in tops}))

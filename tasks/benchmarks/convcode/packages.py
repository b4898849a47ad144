"""Distributions of the modules that a task imports, including those with another name."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping

from sandbox.judging.python_syntax import parse

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

"""Looks at the modules that tests import from their own folder: what such a file defines has to be what its text compiles to.

Trusted, standard library only. No class is defined here.
"""

from __future__ import annotations

import builtins
import os
import sys

from instrumentation import ast, nodes_of

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_function_kind = type(lambda: None)


def imports_of(tree: Any) -> list[tuple[int, str]]:
    """List what a module imports: how many folders above, and a name; of `from a import b` also a.b, which may be a module."""
    found: list[tuple[int, str]] = []
    for node in nodes_of(tree):
        if type(node) is ast.Import:
            found += [(0, item.name) for item in node.names]
        elif type(node) is ast.ImportFrom:
            above = node.module or ""
            found += [(node.level or 0, above), *((node.level or 0, f"{above}.{item.name}".strip(".")) for item in node.names)]
    return found


def helpers_of(
    module: Any, imports: list[tuple[int, str]], root: str, is_steering: Callable[[str], bool], is_genuine: Callable[[Any], bool]
) -> tuple[list[Any], str]:
    """Find the tests' own modules that one of them imports.

    Returns:
        These modules; and a function that such a file defines and its module has not, if there is one. Attack: a module of the
        candidate's, put under the name of the tests' helpers before they are imported.
    """
    found: list[Any] = []
    package = (getattr(module, "__package__", None) or "").split(".")
    for level, name in imports:
        parts = [*(package[: len(package) - level + 1] if level else ()), *filter(None, name.split("."))]
        helper = sys.modules.get(".".join(parts))
        place = next((path for path in _places("/".join(parts), root) if is_steering(path)), None)
        if helper is None or place is None or not parts:
            continue
        for defined in _defined_once(place):
            value: Any = vars(helper).get(defined)
            if type(value) is not _function_kind or not is_genuine(value.__code__):
                return found, f"{os.path.basename(place)}'s {defined}"
        found.append(helper)
    return found, ""


def _places(relative: str, root: str) -> list[str]:
    """List where a module of that name would be found, up to the first place that has one."""
    for folder in (*sys.path, root):
        for path in (f"{folder}/{relative}/__init__.py", f"{folder}/{relative}.py"):
            if os.path.isfile(path):
                return [path]
    return []


def _defined_once(path: str) -> list[str]:
    """List functions that a file defines at its top without decorators, and binds nowhere else."""
    try:
        with open(path, "rb") as file:
            tree = compile(file.read(), path, "exec", ast.PyCF_ONLY_AST, True)
    except (OSError, SyntaxError, ValueError):
        return []
    bound: list[str] = []
    for node in nodes_of(tree):
        if type(node) is ast.Name and type(node.ctx) is not ast.Load:
            bound.append(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.append(node.name)
        elif type(node) is ast.alias:
            bound.append(node.asname or node.name)
    plain = [one.name for one in tree.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and not one.decorator_list]
    return [name for name in plain if bound.count(name) == 1]

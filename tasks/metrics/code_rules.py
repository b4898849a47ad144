"""Does a program keep naming and style rules? Decided on its syntax tree (MemoryCode section 3)."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tasks.metrics.registry import metric

Reading = Literal["original", "ude"]
_TAGGED, _FENCED = re.compile(r"```python\n(.*?)```", re.DOTALL), re.compile(r"```(.*?)```", re.DOTALL)
_WHOLE = ("comment", "import")
"""Kinds that a program has once, be it empty: their absence is an answer, not a missing object."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@metric("code_match", title="code rules")
def code_match(answer: str, rules: Sequence[Any], reading: Reading = "original") -> float | None:
    """Share of the rules that the answer's program keeps; each with all its objects.

    Args:
        rules: one `[kind, rule]`, or a list of them. A rule is a pattern for names; whether objects of the kind are there at all
            (true, false); or `[name, true or false]`, whether that name is among them.
        reading: `original`: a rule about objects that the program lacks is left out. `ude`: it counts as broken; and imports are
            looked at letter by letter, so that no full name is ever found.

    Returns:
        In [0, 1]; 0 for no Python program; None where every rule was left out.

    Source: MemoryCode section 3 and its scorer; UniDial-EvalKit, `code_match`.
    """
    listed = rules if rules and isinstance(rules[0], (list, tuple)) else [rules]
    try:
        found = objects(program_of(answer)) if answer else None
    except (SyntaxError, ValueError, RecursionError):
        found = None
    if found is None:
        return 0.0
    kept = [one for kind, rule in listed if (one := _kept(found.get(kind, []), kind, rule, reading)) is not None]
    return sum(kept) / len(kept) if kept else None


def program_of(answer: str) -> str:
    """The first block tagged python, else the first block, else the whole answer."""
    block = _TAGGED.search(answer) or _FENCED.search(answer)
    return block.group(1) if block else answer


def _kept(there: Sequence[Sequence[str]], kind: str, rule: Any, reading: Reading) -> bool | None:
    if not there and kind not in _WHOLE:
        return None if reading == "original" else False
    if isinstance(rule, bool):
        present = [len(names) > 0 for names in there]
        return all(present) if rule else not any(present)
    if isinstance(rule, (list, tuple)):
        name, wanted = rule
        if kind not in _WHOLE:
            return all((name in names) == wanted for names in there)
        flat = {one for names in there for one in names}
        return (name in ({letter for one in flat for letter in one} if reading == "ude" else flat)) == wanted
    named = [bool(re.match(rule, names[0])) for names in there if names]
    return bool(named) and all(named)


def objects(code: str) -> dict[str, list[list[str]]]:
    """Kind -> its objects, each as a list of names: of a thing that has a name, that one; of a function's parts, all of them.

    Raises:
        SyntaxError: the code is no Python.
    """
    tree = ast.parse(code)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = [node for one in classes for node in one.body if isinstance(node, Function)]
    functions = [node for node in ast.walk(tree) if isinstance(node, Function) and node not in methods]
    found: dict[str, list[list[str]]] = {
        "class": [[one.name] for one in classes],
        "class decorator": [_decorators(one) for one in classes],
        "variable": [[name] for name in _stored(tree, ast.Name)],
        "attribute": [[name] for name in _stored(tree, ast.Attribute)],
        "comment": [_comments(code)],
        "import": [list(_imports(tree))],
    }
    for kind, nodes in (("function", functions), ("method", methods)):
        found |= {
            kind: [[node.name] for node in nodes if not _is_special(node)],
            f"{kind} argument": [[name] for node in nodes for name in _arguments(node)],
            f"{kind} annotation": [_annotations(node) for node in nodes],
            f"{kind} decorator": [_decorators(node) for node in nodes],
            f"{kind} docstring": [[text] if (text := ast.get_docstring(node)) else [] for node in nodes],
            f"{kind} try": [_within(node, ast.Try) for node in nodes],
            f"{kind} assert": [_within(node, ast.Assert) for node in nodes],
        }
    return found


def _is_special(node: Function) -> bool:
    """`__init__` and its like have names that no rule can change."""
    return node.name.startswith("__") and node.name.endswith("__")


def _stored(tree: ast.AST, kind: type[ast.Name] | type[ast.Attribute]) -> Iterator[str]:
    """Names that are assigned to, each once."""
    stored = (node for node in ast.walk(tree) if isinstance(node, kind) and isinstance(node.ctx, ast.Store))
    yield from dict.fromkeys(node.id if isinstance(node, ast.Name) else node.attr for node in stored)


def _arguments(node: Function) -> list[str]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *(one for one in (given.vararg, given.kwarg) if one)]
    return [one.arg for one in every if one.arg not in ("self", "cls")]


def _annotations(node: Function) -> list[str]:
    """Annotations of arguments and result."""
    given = [one for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if one.arg not in ("self", "cls")]
    there = [ast.unparse(one.annotation) for one in given if one.annotation]
    return there + ([ast.unparse(node.returns)] if node.returns else [])


def _decorators(node: Function | ast.ClassDef) -> list[str]:
    called = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
    return [ast.unparse(one).rpartition(".")[2] for one in called]


def _within(node: Function, kind: type[ast.AST]) -> list[str]:
    return [kind.__name__ for inner in ast.walk(node) if isinstance(inner, kind)]


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(alias.name for alias in node.names))


def _comments(code: str) -> list[str]:
    try:
        return [one.string for one in tokenize.generate_tokens(io.StringIO(code).readline) if one.type == tokenize.COMMENT]
    except (tokenize.TokenError, IndentationError):
        return []

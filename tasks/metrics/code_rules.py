"""Whether a program keeps naming and style rules, decided on its syntax tree (MemoryCode section 3)."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tasks.metrics.registry import metric

Reading = Literal["original", "ude"]
_TAGGED, _FENCED = (
    re.compile(r"```python\n(.*?)```", re.DOTALL),
    re.compile(r"```(.*?)```", re.DOTALL),
)
_COMMENT = re.compile(r"#.*")
_WHOLE = ("comment", "import")
"""Kinds whose absence is an answer, not a missing object."""
Objects = dict[str, list[Sequence[Any]]]
"""Kind -> its objects. An object is the list of its names or parts; an import is its name alone."""


@metric("code_match", version=2, title="code rules")
def code_match(answer: str, rules: Sequence[Any], reading: Reading = "original") -> float | None:
    """Return the share of the rules that all objects of their kind in the answer's program keep.

    Args:
        rules: one `[kind, rule]`, or a list of them. A rule is a pattern for the first name of each object; a boolean, whether
            each object has such parts; or `[name, true or false]`, whether that name is among them.
        reading: `original` is MemoryCode's scorer: a rule about objects that the program lacks is left out. `ude` is
            UniDial-EvalKit's: such a rule is broken, and imports are compared letter by letter, so no full name is found.

    Returns:
        In [0, 1]; 0 for no Python program and for an empty answer; None where every rule was left out.

    Source: MemoryCode section 3 and its scorer; UniDial-EvalKit, `code_match`.
    """
    listed = rules if rules and isinstance(rules[0], (list, tuple)) else [rules]
    try:
        found = objects(program_of(answer)) if answer else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = None
    if found is None:
        return 0.0
    kept = [
        is_kept
        for kind, rule in listed
        if (is_kept := _is_kept(found.get(kind, []), kind, rule, reading)) is not None
    ]
    return sum(kept) / len(kept) if kept else None


def program_of(answer: str) -> str:
    """Return the first block tagged python, else the first block, else the whole answer."""
    block = _TAGGED.search(answer) or _FENCED.search(answer)
    return block.group(1) if block else answer


def _is_kept(found: Sequence[Sequence[Any]], kind: str, rule: Any, reading: Reading) -> bool | None:
    if not found and kind not in _WHOLE:
        return None if reading == "original" else False
    if isinstance(rule, bool):
        present = [len(parts) > 0 for parts in found]
        return all(present) if rule else not any(present)
    if isinstance(rule, (list, tuple)):
        name, wanted = rule
        if kind not in _WHOLE:
            return all((name in parts) == wanted for parts in found)
        names = [part for parts in found for part in parts] if reading == "ude" else found
        return (name in names) == wanted
    matches = [bool(re.match(rule, parts[0])) for parts in found if parts]
    return bool(matches) and all(matches)


def objects(code: str) -> Objects:
    """Return the objects of a program by kind, as MemoryCode's scorer collects them.

    Raises:
        SyntaxError: the code is no Python.
    """
    collector = _Collector()
    collector.visit(ast.parse(code))
    return {**collector.objects, "comment": [_COMMENT.findall(code)]}


class _Collector(ast.NodeVisitor):
    """Walk of a syntax tree that collects objects.

    A function anywhere below a class is a method. Coroutines are neither functions nor methods, but what stands in them counts.
    """

    def __init__(self) -> None:
        self.objects: Objects = {}
        self._is_in_class = False

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._add("class", [node.name])
        self._add("class decorator", list(_decorators(node)))
        outside, self._is_in_class = self._is_in_class, True
        self.generic_visit(node)
        self._is_in_class = outside

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if not self._is_in_class:
            self._add("function argument", [one.arg for one in node.args.args])
            self._add_function("function", node)
        elif node.name == "__init__":
            self._add("attribute", list(_attributes(node)))
        elif not node.name.startswith("__"):
            self._add_function("method", node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._add_variables(node.targets)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._add_variables([node.target])
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add("import", alias.name)

    def _add(self, kind: str, found: Sequence[Any]) -> None:
        self.objects.setdefault(kind, []).append(found)

    def _add_function(self, kind: str, node: ast.FunctionDef) -> None:
        docstring = ast.get_docstring(node)
        annotations = [one.annotation for one in node.args.args if one.annotation]
        self._add(kind, [node.name])
        self._add(f"{kind} docstring", [docstring] if docstring else [])
        self._add(f"{kind} try", [inner for inner in node.body if isinstance(inner, ast.Try)])
        self._add(f"{kind} assert", [inner for inner in node.body if isinstance(inner, ast.Assert)])
        self._add(
            f"{kind} annotation",
            [ast.unparse(one) for one in (*annotations, *filter(None, [node.returns]))],
        )
        self._add(f"{kind} decorator", list(_decorators(node)))

    def _add_variables(self, targets: Sequence[ast.expr]) -> None:
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(one, ast.Name):
                    self._add("variable", [one.id])


def _attributes(node: ast.FunctionDef) -> Iterator[str]:
    """Yield the attributes of `self` that statements right below the function assign."""
    for statement in node.body:
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            ):
                yield target.attr


def _decorators(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """Yield the names of decorators without their modules and arguments."""
    for decorator in node.decorator_list:
        while isinstance(decorator, ast.Call):
            decorator = decorator.func
        if isinstance(decorator, ast.Name):
            yield decorator.id
        elif isinstance(decorator, ast.Attribute):
            yield decorator.attr

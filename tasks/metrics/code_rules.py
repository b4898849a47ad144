"""Scores of a program: naming and style rules (MemoryCode section 3), and its unit tests.

The rules are checked on the program's syntax tree. The sandbox runs the tests.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tasks.metrics.registry import metric, share

Reading = Literal["original", "ude"]
_TAGGED, _FENCED = (
    re.compile(r"```python\n(.*?)```", re.DOTALL),
    re.compile(r"```(.*?)```", re.DOTALL),
)
_COMMENT = re.compile(r"#.*")
_OPTIONAL_KINDS = ("comment", "import")
"""Kinds of object that a program may lack: a rule about them applies even then."""
Objects = dict[str, list[Sequence[Any]]]
"""Kind of construct (`function`, `import` and others) -> the ones found in the code.

Each is a list of its names or parts; an import is its name.
"""


@metric("code_match", version=2, title="code rules")
def code_match(answer: str, rules: Sequence[Any], reading: Reading = "original") -> float | None:
    """Return the share of the rules that the answer's program follows.

    A program follows a rule if all its objects of the rule's kind do.

    Args:
        answer: the model's answer.
        rules: one `[kind, rule]`, or a list of them. A rule is a pattern for the first name of
            each object; a boolean (each object must, or must not, have such parts); or
            `[name, true or false]` (the name must, or must not, be among the parts).
        reading: `original` follows MemoryCode's scorer, which skips a rule about objects that the
            program lacks. `ude` follows UniDial-EvalKit's, where the program breaks such a rule,
            and where imports are compared letter by letter, so that no full name matches.

    Returns:
        In [0, 1]; 0 for an empty answer or one that is not valid Python; None if every rule is
        skipped.

    Source: MemoryCode section 3 and its scorer; UniDial-EvalKit, `code_match`.
    """
    rule_list = rules if rules and isinstance(rules[0], (list, tuple)) else [rules]
    try:
        program_objects = objects(program_of(answer)) if answer else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        program_objects = None
    if program_objects is None:
        return 0.0
    results = [
        result
        for kind, rule in rule_list
        if (result := _is_followed(program_objects.get(kind, []), kind, rule, reading)) is not None
    ]
    return sum(results) / len(results) if results else None


def program_of(answer: str) -> str:
    """Return the first code block tagged python, else the first block, else the answer."""
    block = _TAGGED.search(answer) or _FENCED.search(answer)
    return block.group(1) if block else answer


def _is_followed(
    kind_objects: Sequence[Sequence[Any]], kind: str, rule: Any, reading: Reading
) -> bool | None:
    if not kind_objects and kind not in _OPTIONAL_KINDS:
        return None if reading == "original" else False
    if isinstance(rule, bool):
        present = [len(parts) > 0 for parts in kind_objects]
        return all(present) if rule else not any(present)
    if isinstance(rule, (list, tuple)):
        name, wanted = rule
        if kind not in _OPTIONAL_KINDS:
            return all((name in parts) == wanted for parts in kind_objects)
        names = (
            [part for parts in kind_objects for part in parts] if reading == "ude" else kind_objects
        )
        return (name in names) == wanted
    matches = [bool(re.match(rule, parts[0])) for parts in kind_objects if parts]
    return bool(matches) and all(matches)


def objects(code: str) -> Objects:
    """Collect the objects of a program by kind, like MemoryCode's scorer.

    Raises:
        SyntaxError: the code is not valid Python.
    """
    collector = _Collector()
    collector.visit(ast.parse(code))
    return {**collector.objects, "comment": [_COMMENT.findall(code)]}


class _Collector(ast.NodeVisitor):
    """Visitor that collects the objects of a syntax tree.

    A function anywhere below a class is a method. Coroutines are neither functions nor methods, but
    objects inside them are collected.
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
            self._add("function argument", [argument.arg for argument in node.args.args])
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

    def _add(self, kind: str, parts: Sequence[Any]) -> None:
        self.objects.setdefault(kind, []).append(parts)

    def _add_function(self, kind: str, node: ast.FunctionDef) -> None:
        docstring = ast.get_docstring(node)
        annotations = [argument.annotation for argument in node.args.args if argument.annotation]
        self._add(kind, [node.name])
        self._add(f"{kind} docstring", [docstring] if docstring else [])
        self._add(f"{kind} try", [inner for inner in node.body if isinstance(inner, ast.Try)])
        self._add(f"{kind} assert", [inner for inner in node.body if isinstance(inner, ast.Assert)])
        self._add(
            f"{kind} annotation",
            [
                ast.unparse(annotation)
                for annotation in (*annotations, *filter(None, [node.returns]))
            ],
        )
        self._add(f"{kind} decorator", list(_decorators(node)))

    def _add_variables(self, targets: Sequence[ast.expr]) -> None:
        for target in targets:
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(name, ast.Name):
                    self._add("variable", [name.id])


def _attributes(node: ast.FunctionDef) -> Iterator[str]:
    """Yield the attributes of `self` that top-level statements of the function assign."""
    for statement in node.body:
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            ):
                yield target.attr


def _decorators(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """Yield the decorators' names without modules and arguments."""
    for decorator in node.decorator_list:
        while isinstance(decorator, ast.Call):
            decorator = decorator.func
        if isinstance(decorator, ast.Name):
            yield decorator.id
        elif isinstance(decorator, ast.Attribute):
            yield decorator.attr


@metric("unit_tests", title="unit tests")
def unit_tests(n_passed: int, n_cases: int) -> float:
    """Return the share of the tests that the answer's program passes.

    Args:
        n_passed: 0 to `n_cases`.
        n_cases: 1 and up; tests that form one program are one case.

    Returns:
        In [0, 1].

    Raises:
        ValueError: `n_cases` is 0, or `n_passed` is larger.

    Source: ours, for UniDial-EvalKit's metrics of code (section 2.3). The toolkit itself checks
    only rules on names and style.
    """
    return share(n_passed, n_cases, "tests passed")

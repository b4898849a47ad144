"""Providers of models are named in their own files, and nowhere is one of them asked for by its
name.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.language.providers.registry import PROVIDERS, is_control, is_served_here, provider_of
from tests.own_files import own_files, relative

NAMES = {*PROVIDERS.built_in, *(f"{name}:" for name in PROVIDERS.built_in)}
OF_EMBEDDERS = {"schemas/run.py", "tasks/language/model_spec.py"}
"""Embedders have specs of their own."""


def compared(tree: ast.AST) -> Iterator[ast.Constant]:
    """Texts that are compared with something, or that something may begin with."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "startswith"
        ):
            parts = node.args
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        members = [
            member
            for part in parts
            for member in (part.elts if isinstance(part, (ast.Tuple, ast.Set)) else [part])
        ]
        yield from (one for one in members if isinstance(one, ast.Constant) and one.value in NAMES)


def is_of_models(path: Path) -> bool:
    name = relative(path)
    own = (
        name.startswith(("schemas/", "tasks/", "flows/", "warehouse/", "sandbox/"))
        and path.suffix == ".py"
    )
    return own and not name.startswith("tasks/language/providers/") and name not in OF_EMBEDDERS


def test_no_other_module_asks_which_provider_a_model_has() -> None:
    found = [
        f"{relative(path)}:{one.lineno} {one.value!r}"
        for path in own_files()
        if is_of_models(path)
        for one in compared(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_what_is_compared_is_seen() -> None:
    text = (
        "if p == 'vllm' or p in ('openai', 'x') or s.startswith(('control:', 'recorded:')) or "
        "'embedded' != p: pass"
    )
    assert {one.value for one in compared(ast.parse(text))} == {
        "vllm",
        "openai",
        "control:",
        "recorded:",
        "embedded",
    }


@pytest.mark.parametrize("name", PROVIDERS.built_in)
def test_each_form_begins_with_its_provider(name: str) -> None:
    assert all(form.startswith(f"{name}:") for form in PROVIDERS.load(name).forms)
    assert provider_of(f"{name}:x") is PROVIDERS.load(name)


def test_an_unknown_provider_has_none_of_its_properties() -> None:
    assert provider_of("parrot:grey") is None
    assert not is_control("parrot:grey")
    assert is_control("control:gold")
    assert [name for name in PROVIDERS.names() if is_served_here(name)] == ["embedded", "vllm"]

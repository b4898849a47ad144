"""Descriptions of a model's fields: the docstrings below them."""

import ast
import inspect
import textwrap
from functools import cache

from pydantic import BaseModel


@cache
def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Map each field of a model and of its bases to the docstring below it."""
    texts: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if owner is not BaseModel and issubclass(owner, BaseModel):
            [tree] = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
            assert isinstance(tree, ast.ClassDef)
            for field, text in zip(tree.body, tree.body[1:], strict=False):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                ):
                    texts[ast.unparse(field.target)] = inspect.cleandoc(str(text.value.value))
    return texts

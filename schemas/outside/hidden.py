"""Hiding of installed libraries from pyarrow, which works without numpy and pandas."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


class _Hiding(MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == self._name:
            raise ImportError("not looked for yet", name=fullname)


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Make imports of a library fail within the block, unless it was imported before.

    A pyarrow that was imported without numpy never finds it again. Use this only in processes that
    read some rows and end.
    """
    finder = _Hiding(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)

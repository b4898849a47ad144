"""Reading Python on many threads."""

import ast
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox.judging.runners.programs import parse

TEXT = "\n".join(
    f"def f{n}(a, b):\n    return search([{n}, [1, [2, [3]]], {{'a': (1, 2)}}], lambda x: x + {n})"
    for n in range(100)
)


@pytest.fixture
def hurried_threads() -> Iterator[None]:
    """Threads take turns as often as they can, in collections of garbage too."""

    def look(phase: str, info: dict[str, int]) -> None:
        for _ in range(3):
            pass

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    gc.callbacks.append(look)
    yield
    gc.callbacks.remove(look)
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("hurried_threads")
def test_sound_code_is_read_on_many_threads_at_once() -> None:
    with ThreadPoolExecutor(4) as threads:
        read = list(threads.map(lambda _: len(parse(TEXT).body), range(240)))
    assert read == [100] * 240


def test_what_is_not_python_is_refused() -> None:
    with pytest.raises(SyntaxError):
        parse("def f(:")
    assert ast.dump(parse("x = 1")) == ast.dump(ast.parse("x = 1"))

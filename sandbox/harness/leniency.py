"""What the tests themselves made to equal many things, told by identity: their own `ANY`, their own results of `pytest.approx`.

Where the tests' text loads `unittest.mock.ANY` by a name that it imports, it gets an object of that kind that nobody else has;
where it calls `pytest.approx`, the result is remembered. What the candidate returns is never one of these: its own `ANY` is the
library's. To the candidate's objects only copies are shown, so that none comes by one in a comparison.
"""

from __future__ import annotations

import builtins

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BUILDERS = (dict, list, tuple, set, frozenset, zip, enumerate, reversed, iter, all, any, len, str, repr)
"""What hands on nothing of what it is given to the candidate."""
_function_kind = type(lambda: None)


def leniency(tests: str, anything: Any, near: Any) -> dict[str, Callable[..., Any]]:
    """`own` gives the tests their own; `is_any`, `call_of` and `holds` know it again; `shown` is what others may see of a value.

    Args:
        tests: file name that the tests are compiled with.
        anything: `unittest.mock.ANY` as the tests import it, or None.
        near: `pytest.approx`, or None.
    """
    stand_in = None if anything is None else type(anything)()
    made: dict[int, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {}
    bound_kind, get = type(leniency.__get__(0)), dict.get

    def own(value: Any, is_called: bool, *callees: Any) -> Any:
        if value is None or not all(is_tests(callee) for callee in callees):
            return value
        return stand_in if value is anything else make if value is near and is_called else value

    def make(*arguments: Any, **named: Any) -> Any:
        found = near(*arguments, **named)
        made[id(found)] = (found, arguments, named)
        return found

    def is_tests(callee: Any) -> bool:
        """Whether it is a built-in that keeps what it is given to itself, or a function of the tests."""
        function = callee.__func__ if type(callee) is bound_kind else callee
        if type(function) is _function_kind:
            return function.__code__.co_filename == tests
        return any(callee is builder for builder in _BUILDERS)

    def is_any(value: Any) -> bool:
        return stand_in is not None and value is stand_in

    def is_used() -> bool:
        return stand_in is not None or bool(made)

    def call_of(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        found = get(made, id(value))
        return None if found is None else found[1:]

    def holds(value: Any) -> bool:
        """Whether it is, or holds at some depth of built-in groups, one of the tests' own."""
        if not is_used():
            return False
        inner = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
        return is_any(value) or get(made, id(value)) is not None or any(holds(one) for one in inner)

    def shown(value: Any) -> Any:
        if not holds(value):
            return value
        if type(value) is dict:
            return {key: shown(one) for key, one in value.items()}
        if type(value) in (list, tuple):
            return type(value)([shown(one) for one in value])
        again = call_of(value)
        return anything if again is None else near(*again[0], **again[1])

    return {"own": own, "is_any": is_any, "call_of": call_of, "holds": holds, "is_used": is_used, "shown": shown, "near": near}

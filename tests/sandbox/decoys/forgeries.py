"""Every known forgery that passes plainly, with the reference that shows whether a decoy is
sound.
"""

from dataclasses import dataclass

from sandbox.judging.runners.programs import (
    AssertProgram,
    PythonProgram,
    StatementProgram,
    UnittestProgram,
)
from tests.sandbox.attacks.corpus import corpus
from tests.sandbox.decoys.references import REFERENCES
from tests.sandbox.judging.test_cheats import STYLE_TESTS
from tests.sandbox.judging.test_searches import TESTS, parts
from tests.sandbox.programs import audited, programs

REFERENCE = "def f(x): return 4710 + x\n"
_WAITED_FOR = {
    "equality": ("assert f(1) == 4711", REFERENCE),
    "membership": ("assert 4711 in f(1)", "def f(x): return [4710 + x]\n"),
    "difference": ("assert abs(f(1) - 4711) < 1e-6", REFERENCE),
}


@dataclass(frozen=True)
class Forgery:
    """A program that passes plainly, and the same tests on the reference."""

    title: str
    program: PythonProgram
    reference: PythonProgram


def forgeries() -> tuple[Forgery, ...]:
    """Return the forgeries of all lists, less those that do the work and only look around on the
    way.
    """
    every = (*_of_corpus(), *_searches(), *_methods(), *_waiting(), *_judges())
    return tuple(one for one in every if "4710 + x" not in one.program.code)


def _statements(
    title: str, code: str, tests: tuple[str, ...], reference: str = REFERENCE
) -> Forgery:
    known = REFERENCES.get(title, reference)
    return Forgery(
        title, StatementProgram(code=code, tests=tests), StatementProgram(code=known, tests=tests)
    )


def _of_corpus() -> list[Forgery]:
    """Corpus programs, each of whose statements is a test of its own."""
    found = [one for one in corpus() if one.for_audit]
    return [_asserts(one.title, one.code, one.tests) for one in found]


def _asserts(title: str, code: str, tests: tuple[str, ...]) -> Forgery:
    if not all(test.startswith("assert") for test in tests):
        return _statements(title, code, tests)
    reference = REFERENCES.get(title, REFERENCE)
    return Forgery(
        title, AssertProgram(code=code, tests=tests), AssertProgram(code=reference, tests=tests)
    )


def _searches() -> list[Forgery]:
    every = programs("searches.txt")
    found = {name: parts(every[name]) for name in sorted(audited("searches.txt"))}
    return [
        _statements(f"search: {name}", code, (tests or TESTS,))
        for name, (code, tests) in found.items()
    ]


def _methods() -> list[Forgery]:
    every, found = programs("forged_methods.txt"), list[Forgery]()
    for name in sorted(audited("forged_methods.txt")):
        tests, _, code = every[name].partition("# code:\n")
        title = f"method: {name}"
        reference = REFERENCES.get(title, REFERENCE)
        found.append(
            Forgery(
                title,
                UnittestProgram(code=code, test=tests),
                UnittestProgram(code=reference, test=tests),
            )
        )
    return found


def _waiting() -> list[Forgery]:
    every = programs("waiting_objects.txt")
    return [
        _statements(f"waits: {name}", every[name], (_WAITED_FOR[name][0],), _WAITED_FOR[name][1])
        for name in _WAITED_FOR
    ]


def _judges() -> list[Forgery]:
    every = programs("patched_judges.txt")
    good = "def f(x):\n    return x\n"
    return [
        _statements(f"judge: {name}", f"{every[name]}\ndef f( x ) : return x", STYLE_TESTS, good)
        for name in sorted(audited("patched_judges.txt"))
    ]

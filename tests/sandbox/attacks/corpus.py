"""The whole corpus: files of this folder, one program for each door of the kernel, the canary's
own, and older lists.
"""

import os
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from sandbox import registry
from sandbox.canary.release import TESTS, Family, Program, bundled_programs, read_programs
from tests.sandbox.attacks.syscalls import system_call_attacks
from tests.sandbox.programs import audited, programs

_FILES = ("escape.txt", "forge.txt", "exhaust.txt", "legitimate.txt")

WHOLE = "WHOLE_CORPUS"
"""Environment variable: where it is set, every backend gets every program."""
SEED = "CORPUS_SEED"
"""Environment variable: draws what a backend gets of it otherwise. See tests/conftest.py."""
_ONE_IN = 3
_OF_AN_IMAGE = "escape: the host's shadow file, keys and machine id"
"""It looks whether such files are there, and an image has its own."""


@cache
def corpus() -> tuple[Program, ...]:
    """Every program, of all families."""
    here = Path(__file__).parent
    found = [
        program
        for name in _FILES
        for program in read_programs((here / name).read_text(encoding="utf-8"))
    ]
    plain = audited("cheats.txt")
    cheats = [
        Program(Family.FORGE, name, code, TESTS, for_audit=name in plain)
        for name, code in programs("cheats.txt").items()
    ]
    honest = [
        Program(Family.LEGITIMATE, name, code, ("assert f() == 1",))
        for name, code in programs("honest.txt").items()
    ]
    return (*bundled_programs(), *found, *system_call_attacks(), *cheats, *honest)


def attacks() -> tuple[Program, ...]:
    """Those that must not pass plainly."""
    return tuple(program for program in corpus() if not program.must_pass and not program.for_audit)


def legitimate_programs() -> tuple[Program, ...]:
    """Those that must pass."""
    return tuple(program for program in corpus() if program.must_pass)


def fitting(programs: Sequence[Program], backend: str) -> tuple[Program, ...]:
    """Of programs, those that a backend gets: all on the default one, one in three on the others,
    drawn by a seed.
    """
    held = [program for program in programs if backend != "docker" or program.title != _OF_AN_IMAGE]
    if backend == registry.default_name() or WHOLE in os.environ:
        return tuple(held)
    return tuple(
        random.Random(f"{os.environ[SEED]} {backend}").sample(held, -(-len(held) // _ONE_IN))
    )

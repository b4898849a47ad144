"""The canary lives in a sandbox that holds, and dies of one cheat that passes or one gold that does
not.
"""

import time
from pathlib import Path

import pytest

from sandbox import registry
from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.canary.release import (
    TESTS,
    Family,
    Program,
    bundled_programs,
    read_programs,
    release_canary,
)
from schemas.errors import SandboxUnavailable

SOLVES = "def f(x): return 4710 + x\n"


@pytest.mark.slow
def test_it_lives_in_the_default_sandbox_and_takes_seconds(
    bubblewrap: BubblewrapSandbox, tmp_path: Path
) -> None:
    started = time.monotonic()
    canary = release_canary(
        BubblewrapSandbox(slot_directory=tmp_path)
    )  # slots that other tests do not wait for
    assert (canary.passed, canary.failed) == ((), ())
    assert canary.is_alive
    assert (canary.n_attacks, canary.n_golds) == (7, 4)
    assert time.monotonic() - started < 20


def test_an_attack_that_passes_is_named(bubblewrap: BubblewrapSandbox) -> None:
    canary = release_canary(bubblewrap, [Program(Family.FORGE, "gets through", SOLVES, TESTS)])
    assert not canary.is_alive
    assert canary.passed == ("forge: gets through",)


def test_a_gold_that_fails_is_named_with_its_verdict(bubblewrap: BubblewrapSandbox) -> None:
    canary = release_canary(
        bubblewrap, [Program(Family.LEGITIMATE, "fair", "def f(): return 2", ("assert f() == 1",))]
    )
    assert not canary.is_alive
    assert canary.failed[0].startswith("legitimate: fair (failed: ")
    assert "AssertionError" in canary.failed[0]


def test_without_isolation_only_what_does_no_damage_is_run() -> None:
    canary = release_canary(registry.load("none"))
    assert canary.is_alive
    assert (
        canary.n_attacks
        == sum(p.harmless and p.family is Family.FORGE for p in bundled_programs())
        == 2
    )


def test_a_sandbox_that_does_not_run_is_no_verdict() -> None:
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        release_canary(BubblewrapSandbox(bwrap_path="/no/such/bwrap"))


def test_the_format_of_programs() -> None:
    forging = (
        "### forge: a, b: c\n# harmless\n# audit\n# tests: x = f()\\nassert x\nimport os\n# "
        "harmless\n"
    )
    forged, fair = read_programs(f"About.\n{forging}### legitimate: d\ndef f(): return 1")
    assert forged == Program(
        Family.FORGE, "a, b: c", "import os\n# harmless\n", ("x = f()", "assert x"), True, True
    )
    assert (fair.name, fair.tests, fair.must_pass, fair.harmless) == (
        "d",
        ("assert f() == 1",),
        True,
        False,
    )
    assert forged.title == "forge: a, b: c"
    with pytest.raises(ValueError, match="joke"):
        read_programs("### joke: a\npass")


def test_baits_are_filled_in() -> None:
    (program,) = read_programs("### escape: e\nopen('@FILE@')")
    assert (
        "open(\\'/x\\')" in program.with_baits({"FILE": "/x"}).code
        or "open('/x')" in program.with_baits({"FILE": "/x"}).code
    )

"""The oracle sees outcomes, exits, limits and differences; the honest programs are of each kind."""

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.runners.programs import AssertProgram, StatementProgram
from schemas.run import Limits
from tests.bench.references import LIMITS
from tests.sandbox.plain.differences import Comparison, StatedException, compare
from tests.sandbox.plain.honest import honest_programs
from tests.sandbox.plain.oracle import ends_early, plain_outcome


def test_there_are_honest_programs_of_both_outcomes_and_each_kind() -> None:
    assert len({one.name.partition("/")[0] for one in honest_programs()}) >= 60
    for passes in (True, False):
        kinds = {type(one.program).__name__ for one in honest_programs() if one.passes is passes}
        assert kinds == {
            "StatementProgram",
            "AssertProgram",
            "CheckProgram",
            "UnittestProgram",
            "RepositoryProgram",
        }


def test_the_oracle_sees_early_exits_and_processes_that_are_left() -> None:
    early = StatementProgram(code="import sys", tests=("sys.exit(0)", "assert False"))
    assert plain_outcome(early, LIMITS).has_passed
    assert ends_early(early, LIMITS)
    assert not ends_early(StatementProgram(code="x = 1", tests=("assert x == 1",)), LIMITS)
    left = "import subprocess\nchild = subprocess.Popen(['sleep', '30'])"
    assert plain_outcome(
        StatementProgram(code=left, tests=("assert child.pid",)), LIMITS
    ).has_left_processes
    assert not plain_outcome(
        StatementProgram(code=left, tests=("child.kill()", "child.wait()")), LIMITS
    ).has_left_processes


def test_the_oracle_keeps_limits() -> None:
    limits = Limits(cpu_s=1, wall_s=20, memory_mb=256)
    assert plain_outcome(
        StatementProgram(code="while True: pass", tests=("pass",)), limits
    ).has_timed_out
    assert (
        "MemoryError"
        in plain_outcome(
            StatementProgram(code="x = bytes(300 << 20)", tests=("pass",)), limits
        ).detail
    )


def test_a_difference_is_seen_in_a_program_and_in_a_test(bubblewrap: BubblewrapSandbox) -> None:
    """Parley's verdict on one program beside plain Python's outcome of another."""
    passes, fails = (
        AssertProgram(code=f"x = {n}", tests=("assert x > 0", "assert x == 1")) for n in (1, 2)
    )
    mixed = compare(
        bubblewrap,
        "mixed",
        passes,
        LIMITS,
        outcome_of=lambda _, limits: plain_outcome(fails, limits),
    )
    assert mixed.exception is StatedException.UNSTABLE  # run again, plain Python says otherwise
    same = compare(bubblewrap, "same", passes, LIMITS)
    assert same.is_equal
    seen = Comparison("seen", passes, same.ours, plain_outcome(fails, LIMITS))
    assert not seen.is_equal
    assert seen.differing_tests == ("test 2",)

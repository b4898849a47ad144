"""Ways to a pass without doing the task (FACTS), and how they read.

`attacks/` runs all of cheats.txt on every backend.
"""

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome
from tests.sandbox.programs import held

pytestmark = pytest.mark.slow

LIMITS = Limits(cpu_s=1, wall_s=20)
TESTS = ("assert f(1) == 4711", "assert f(2) == 4712")
STYLE_TESTS = (
    "import pycodestyle, inspect",
    "open('temp.py', 'w').write(inspect.getsource(f))",
    "assert pycodestyle.StyleGuide().check_files(['temp.py']).total_errors == 0",
)

PATCHED_JUDGES = held("patched_judges.txt")


@pytest.mark.parametrize("patch", PATCHED_JUDGES.values(), ids=PATCHED_JUDGES.keys())
def test_patched_judges_do_not_pass(bubblewrap: BubblewrapSandbox, patch: str):
    found = run_function_tests(bubblewrap, f"{patch}\ndef f( x ) : return x", STYLE_TESTS, LIMITS)
    assert found.outcome is Outcome.FAILED


def test_the_honest_program_passes_the_same_tests(bubblewrap: BubblewrapSandbox):
    assert (
        run_function_tests(bubblewrap, "def f(x): return 4710 + x", TESTS, LIMITS).outcome
        is Outcome.PASSED
    )


@pytest.mark.parametrize(
    "code",
    [
        "sys.exit(1)",
        "os.kill(os.getppid(), 9)",
        "os.kill(-1, 9)",
        "os._exit(127)",
        "os._exit(126)",
        "os._exit(73)",
    ],
)
def test_no_candidate_turns_its_run_into_infra(bubblewrap: BubblewrapSandbox, code: str):
    assert (
        run_function_tests(bubblewrap, f"import os, sys\n{code}", TESTS, LIMITS).outcome
        is Outcome.FAILED
    )

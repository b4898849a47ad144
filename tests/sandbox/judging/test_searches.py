"""Programs written against the runner itself that isolation holds, and honest ones that come near
to them.
"""

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome
from tests.sandbox.programs import held

pytestmark = pytest.mark.slow

LIMITS = Limits(cpu_s=2, wall_s=20)
TESTS = "assert f(1) == 4711\nassert f(2) == 4712"
SEARCHES = held("searches.txt")


def parts(program: str) -> tuple[str, str]:
    """Code and tests."""
    first, _, rest = program.partition("\n")
    return (
        (rest, first.removeprefix("# tests: ").replace("\\n", "\n"))
        if first.startswith("# tests: ")
        else (program, TESTS)
    )


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_for_tests_or_key_does_not_pass(bubblewrap: BubblewrapSandbox, name: str):
    code, tests = parts(SEARCHES[name])
    assert run_function_tests(bubblewrap, code, (tests,), LIMITS).outcome is Outcome.FAILED


def test_a_write_into_the_runner_s_channel_is_named_as_tampering(bubblewrap: BubblewrapSandbox):
    code = "import os, time\ndef f(x):\n    for n in range(3, 30):\n"
    code += (
        "        try: os.write(n, bytes(7) + b'2' + bytes(50))\n        except OSError: pass\n   "
        " time.sleep(60)"
    )
    found = run_function_tests(bubblewrap, code, (TESTS,), LIMITS)
    assert (found.outcome, found.reason) == (Outcome.FAILED, FailureReason.TAMPERING)
    assert found.detail.startswith("tampering: ")
    assert found.duration_s < 10


ODD_BUT_HONEST = {
    "handlers get what getsignal gives": """
import signal
def h(number, frame): seen.append(number)
seen = []
before = signal.signal(signal.SIGUSR1, h)
assert before == signal.SIG_DFL and signal.getsignal(signal.SIGUSR1) is h
signal.raise_signal(signal.SIGUSR1)
assert signal.signal(signal.SIGUSR1, signal.SIG_IGN) is h
def f(): return len(seen)
""",
    "a tolerant number": """
class Near:
    def __init__(self, x): self.x = x
    def __eq__(self, o): return abs(self.x - o) < 1e-6
def f(): return Near(1)
""",
    "a text without case": """
class Text(str):
    def __eq__(self, o): return str(o).lower() == self.lower() or o == 1
    def __hash__(self): return 1
def f(): return 1 if Text('A') == 'a' else 0
""",
    "library objects": """
import datetime, decimal, fractions
def f(): return decimal.Decimal(1) if datetime.date(2020, 1, 1) == datetime.date(2020, 1, 1) else fractions.Fraction(0)
""",
    "a signature of its caller's function": """
import inspect
def f(g=lambda a, b: 1): return len(inspect.signature(g).parameters) - 1
""",
    "a profile of itself": """
import cProfile, io, pstats
def f():
    p = cProfile.Profile()
    p.runcall(sum, [1])
    return 1 if pstats.Stats(p, stream=io.StringIO()).total_calls else 0
""",
    "numbers of ctypes": "import ctypes\ndef f(): return ctypes.c_int32(2**32 + 1).value",
    "pandas, which warns of its caller": (
        "import pandas as pd\ndef f(): return pd.to_datetime('31/12/2020').day - 30"
    ),
    "classes of machine code": (
        "from scipy.optimize._highspy import _core\ndef f(): return 1 if _core.BasisValidity else 0"
    ),
    "its own host": (
        "import socket\ndef f(): return int(socket.gethostbyname(socket.gethostname()) == "
        "'127.0.0.1')"
    ),
    "frames": (
        "import inspect, sys\ndef f(): return int(bool(sys._getframe(1).f_code and "
        "inspect.stack()))"
    ),
    "equality that gives an expression": """
class E:
    def __eq__(self, other): return (self, other)
    __hash__ = None
def f(): return int(bool(E() == 2))
""",
    "a generator": "def g(): yield from (1, 2)\ndef f(): return int(2 in g() and 3 not in g())",
    "library models": """
import pydantic, sklearn, sqlalchemy
class M(pydantic.BaseModel): x: int
def f(): return M(x='1').x
""",
    "a built-in of its own": "abs = lambda x: 1\ndef f(): return abs(-7)",
    "arrays": "import numpy as np\ndef f(): return np.array([1])",
}


@pytest.mark.parametrize("code", ODD_BUT_HONEST.values(), ids=ODD_BUT_HONEST.keys())
def test_honest_programs_that_come_near_are_not_accused(bubblewrap: BubblewrapSandbox, code: str):
    roomy = Limits(cpu_s=30, wall_s=120)  # three large libraries are imported by one of them
    found = run_function_tests(
        bubblewrap, code, ("assert f() == 1", "assert 0 < 1 <= 2 and f() == 1"), roomy
    )
    assert (found.outcome, found.detail, found.reason) == (Outcome.PASSED, "", None)


@pytest.mark.parametrize(
    "tests",
    [
        "from unittest.mock import ANY\nassert f() == ANY\nassert [f(), ANY] == [ANY, 1]",
        (
            "import math\nfrom unittest.mock import patch\nwith patch('math.gcd', "
            "return_value=7):\n    assert math.gcd(1, 2) == 7"
        ),
        (
            "import pytest\nassert f() == pytest.approx(1.0)\nassert {'a': f()} == "
            "pytest.approx({'a': 1})"
        ),
        (
            "expected = 0\nfor expected in [1]:\n    assert f() == expected\nassert not (f() - "
            "expected)\nassert f() in {1, 2}"
        ),
    ],
)
def test_tests_may_use_what_equals_much_and_patch_modules(
    bubblewrap: BubblewrapSandbox, tests: str
):
    found = run_function_tests(bubblewrap, "def f(): return 1", (tests,), LIMITS)
    assert (found.outcome, found.detail) == (Outcome.PASSED, "")

"""Forgeries of unittest methods that isolation holds fail; odd tests and odd honest programs end as
unittest ends them.
"""

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.runners.programs import UnittestProgram
from sandbox.judging.runners.run import run_tests
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict
from tests.sandbox.programs import held

pytestmark = pytest.mark.slow

FORGERIES = held("forged_methods.txt")
LIMITS = Limits(cpu_s=10, wall_s=60, memory_mb=2048)


def judged(sandbox: BubblewrapSandbox, code: str, tests: str) -> ProgramVerdict:
    return run_tests(sandbox, UnittestProgram(code=code, test=tests), LIMITS)


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_method_does_not_pass(bubblewrap: BubblewrapSandbox, name: str):
    tests, _, code = FORGERIES[name].partition("# code:\n")
    assert judged(bubblewrap, code, tests).outcome is not Outcome.PASSED


AWAITED = """
import unittest
class T(unittest.IsolatedAsyncioTestCase):
    async def test_cleaned(self):
        self.addAsyncCleanup(self.look, 4711, after=1)
        self.r = f(1)
    async def test_torn_down(self): self.r = f(1)
    async def asyncTearDown(self): self.assertEqual(self.r, 4711)
    async def look(self, wanted, *, after): self.assertEqual((self.r, after), (wanted, 1))
"""


@pytest.mark.parametrize(
    ("code", "outcome"), [("def f(x): return 4711", "passed"), ("def f(x): return 0", "failed")]
)
def test_what_follows_an_awaited_method_is_awaited(
    bubblewrap: BubblewrapSandbox, code: str, outcome: str
):
    assert {case.outcome.value for case in judged(bubblewrap, code, AWAITED).cases} == {outcome}


KEEPS_STATE = """
import unittest, logging, warnings, multiprocessing, time
import numpy as np
from unittest.mock import patch
def worker(x): return f(x) + 1
def setUpModule(): time.ctime = lambda: 6
class Counted:
    n = 0
    def count(self): Counted.n += 1
class T(unittest.TestCase):
    shared = None
    count = 0
    @classmethod
    def setUpClass(cls): cls.shared, cls.maxDiff = f(1), None
    def test_state(self):
        Counted().count()
        T.count += 1
        T.late = lambda self: 4
        self.assertEqual((self.shared, Counted.n, T.count, self.late()), (1, 1, 1, 4))
    def test_rebound(self):
        global tool
        tool = lambda: 9
        self.assertEqual(tool(), 9)
    def test_left(self):
        patch('time.time', return_value=5).start()
        self.assertEqual((now(), time.ctime()), (5, 6))
    def test_infinite(self): self.assertEqual(np.float64('inf'), float('inf'))
    def test_members(self): self.assertIn(np.int64(3), [1, 2, 3])
    def test_workers(self):
        self.assertEqual(spread(worker, [1, 2]), [2, 3])
        with multiprocessing.Pool(2) as pool: self.assertEqual(pool.map(worker, [1]), [2])
    def test_logs(self):
        with self.assertLogs('app'): logs()
    def test_warns(self):
        with warnings.catch_warnings(record=True) as seen: warns()
        self.assertEqual(seen, [])
def tool(): return 1
"""
HONEST = """
import asyncio, json, logging, multiprocessing, time, warnings
logging.Logger.success = lambda self, text: self.info(text)
logging.setLoggerClass(type('Own', (logging.Logger,), {}))
before = logging.getLogRecordFactory()
def record(*a, **k): return before(*a, **k)
logging.setLogRecordFactory(record)
json.JSONEncoder.default = lambda self, o: str(o)
def warn(*a, **k): pass
warnings.warn = warn
def f(x): return asyncio.run(same(x))
async def same(x): return x
def now(): return time.time()
def spread(w, xs):
    with multiprocessing.Pool(2) as pool: return pool.map(w, xs)
def logs():
    logging.getLogger('app').success('x')
    try: 1 / 0
    except ZeroDivisionError: logging.getLogger('app').exception('y', stack_info=True)
def warns(): warnings.warn('x')
"""


def test_tests_may_keep_state_and_programs_may_use_hooks(bubblewrap: BubblewrapSandbox):
    found = judged(bubblewrap, HONEST, KEEPS_STATE)
    assert {
        case.name: case.detail for case in found.cases if case.outcome is not Outcome.PASSED
    } == {}

"""What passes, what fails and how it reads."""

import pytest

from sandbox.bubblewrap_backend import BubblewrapSandbox
from sandbox.function_tests import LONGEST_DETAIL, FunctionVerdict, run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome

LIMITS = Limits(cpu_s=2, wall_s=20)
STYLE_TEST = """\
import pycodestyle
import inspect
def check_style(function, filename="temp.py"):
    with open(filename, "w") as file:
        file.write(inspect.getsource(function))
    assert pycodestyle.StyleGuide(quiet=False).check_files([filename]).total_errors == 0, "style"
check_style(f)"""


def verdict(sandbox: BubblewrapSandbox, code: str, *tests: str, limits: Limits = LIMITS) -> FunctionVerdict:
    return run_function_tests(sandbox, code, tests or ("assert f() == 1",), limits)


def test_code_that_satisfies_its_tests_passes(bubblewrap: BubblewrapSandbox):
    assert verdict(bubblewrap, "def f(): return 1").model_dump(exclude={"duration_s"}) == {
        "outcome": Outcome.PASSED,
        "detail": "",
    }


def test_the_detail_is_the_end_of_the_traceback(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "def f():\n    return 2", "x = f()", "assert x == 1, f'got {x}'")
    assert found.outcome is Outcome.FAILED
    assert found.detail.endswith("AssertionError: got 2")
    assert "assert x == 1" in found.detail
    assert "judged_program" not in found.detail


def test_an_exception_in_the_code_names_its_line(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "a = 1\nraise RuntimeError('no')")
    assert found.outcome is Outcome.FAILED
    assert 'File "program.py", line 2' in found.detail


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(:", "SyntaxError"),
        ("def f():\n    '''open\n    return 1", "SyntaxError"),  # would swallow the tests, were they one text
        ("if True:", "IndentationError"),
        ("x = 'a\0b'", "source code cannot contain null bytes"),
        ("x = '\ud800'", "utf-8"),
    ],
)
def test_code_that_does_not_compile_fails_with_the_message(bubblewrap: BubblewrapSandbox, code: str, message: str):
    found = verdict(bubblewrap, code, "pass")
    assert found.outcome is Outcome.FAILED
    assert message in found.detail


def test_every_test_must_hold(bubblewrap: BubblewrapSandbox):
    assert verdict(bubblewrap, "def f(): return 1", "assert f() == 1", "assert f() == 2").outcome is Outcome.FAILED


def test_a_loop_is_a_timeout(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "def f():\n    while True: pass", limits=Limits(cpu_s=1, wall_s=20))
    assert (found.outcome, found.detail) == (Outcome.TIMEOUT, "used up its 1 s of CPU time")


def test_a_sleeper_is_a_timeout(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "import time\ndef f(): time.sleep(60)", limits=Limits(cpu_s=1, wall_s=2))
    assert (found.outcome, found.detail) == (Outcome.TIMEOUT, "did not end within 2 s on the clock")


def test_a_thread_that_never_ends_is_a_timeout(bubblewrap: BubblewrapSandbox):
    code = "import threading, time\nthreading.Thread(target=lambda: time.sleep(60)).start()\ndef f(): return 1"
    assert verdict(bubblewrap, code, limits=Limits(cpu_s=1, wall_s=2)).outcome is Outcome.TIMEOUT


def test_too_much_memory_has_failed(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "def f(): return len(bytearray(4 << 30)) and 1")
    assert found.outcome is Outcome.FAILED
    assert "MemoryError" in found.detail


def test_too_many_processes_with_much_memory_have_failed(bubblewrap: BubblewrapSandbox):
    code = """
import os
def f():
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            block = bytearray(150 << 20)
            for i in range(0, len(block), 4096): block[i] = 1
            import time; time.sleep(0.5); os._exit(0)
        children.append(child)
    return 1 if all(os.waitpid(c, 0)[1] == 0 for c in children) else 0
"""
    from sandbox.memory_cgroup import memory_cgroup

    with memory_cgroup(1 << 28) as group:
        if group is None:
            pytest.skip("no memory cgroup is writable here: only each process is bounded")
    assert verdict(bubblewrap, code, limits=Limits(cpu_s=5, memory_mb=256)).outcome is Outcome.FAILED


def test_a_crash_of_the_interpreter_has_failed(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGSEGV)")
    assert (found.outcome, found.detail) == (Outcome.FAILED, "ended with signal 11 before its tests were through")


def test_an_exit_status_after_the_tests_counts(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "import atexit, os\natexit.register(os._exit, 3)\ndef f(): return 1")
    assert (found.outcome, found.detail) == (Outcome.FAILED, "passed its tests, then ended with exit status 3")


def test_details_are_bounded_harmless_and_equal_each_time(bubblewrap: BubblewrapSandbox):
    code = "def f(): raise ValueError(object(), 'x' * 9000 + '\\x1b[31m\\u202e' + '\\n' * 3)"
    first, second = (
        verdict(bubblewrap, code, "try: f()\nexcept ValueError as e: raise ValueError(str(e.args[1]))") for _ in range(2)
    )
    assert first.detail == second.detail
    assert len(first.detail) <= LONGEST_DETAIL
    assert "\x1b" not in first.detail
    assert "\u202e" not in first.detail
    addresses = [verdict(bubblewrap, "def f(): raise ValueError(object())").detail for _ in range(2)]
    assert addresses[0] == addresses[1]
    assert "0x..." in addresses[0]


LEGITIMATE = {
    "noise": "import sys\nprint('PASSED' * 50000)\nsys.stderr.write('x' * 300000)\ndef f(): return 1",
    "end of file on stdin": "import sys\nassert sys.stdin.read() == ''\ndef f(): return 1",
    "main guard": "def f(): return 1\nif __name__ == '__main__':\n    ran = True\n    print(f())",
    "threads": (
        "import threading\nfound = []\ndef f():\n    t = [threading.Thread(target=found.append, args=(1,)) for _ in range(4)]\n"
        "    [x.start() for x in t]; [x.join() for x in t]\n    return len(found) // 4"
    ),
    "daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\ndef f(): return 1",
    "python subprocess": (
        "import subprocess, sys\ndef f(): return int(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout)"
    ),
    "process pool": (
        "import multiprocessing\ndef one(x): return 1\ndef f():\n    with multiprocessing.Pool(2) as p: return max(p.map(one, range(4)))"
    ),
    "temporary files": "import tempfile\ndef f():\n    with tempfile.NamedTemporaryFile() as t: return t.write(b'1')",
    "deep recursion": "def down(n): return 1 if n == 0 else down(n - 1)\ndef f(): return down(980)",
    "numpy": "import numpy as np\ndef f(): return int(np.linalg.det(np.eye(3)))",
    "exit in an uncalled function": "def stop(): exit()\ndef f(): return 1",
    "dataclass and named tuple": (
        "from dataclasses import dataclass\nfrom collections import namedtuple\nfrom typing import NamedTuple\nimport enum\n"
        "@dataclass(order=True)\nclass A:\n    x: int = 1\nP = namedtuple('P', 'x')\nclass N(NamedTuple):\n    x: int\n"
        "E = enum.Enum('E', 'a b')\ndef f(): return A(1).x if A(1) == A(1) and P(1) == P(1) else 0"
    ),
    "own equality": (
        "class A:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return isinstance(o, A) and self.x == o.x\n"
        "def f(): return 1 if A(1) == A(1) else 0"
    ),
    "equality that presumes its own kind": (
        "class A:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x\ndef f(): return int(A(1) == A(1))"
    ),
    "logging and tracebacks": (
        "import logging, traceback\nlogging.basicConfig(level='INFO')\ndef f():\n    logging.info('x')\n"
        "    try: 1 / 0\n    except ZeroDivisionError: traceback.print_exc()\n    return 1"
    ),
    "doctest": "import doctest\ndef f():\n    '''\n    >>> f()\n    1\n    '''\n    return 1\ndoctest.testmod()",
    "a function named like a built-in": "def sum(x): return 1\ndef f(): return sum([])",
    "own imports of judging modules": "import inspect, ast, pycodestyle\ndef f(): return 1 if inspect.isfunction(f) else 0",
    "future annotations": "from __future__ import annotations\ndef f(x: Unknown = 1) -> Unknown: return x",
    "carriage returns": "def f():\r\n    return 1\r\n",
    "asyncio": "import asyncio\nasync def g(): return 1\ndef f(): return asyncio.run(g())",
    "pickle": "import pickle\nclass A: pass\ndef f(): return 1 if isinstance(pickle.loads(pickle.dumps(A())), A) else 0",
    "changes its directory": "import os, tempfile\ndef f():\n    os.chdir(tempfile.gettempdir())\n    return 1",
    "exit handlers": "import atexit\natexit.register(print, 'bye')\ndef f(): return 1",
    "replaces print": "import builtins\nbuiltins.print = lambda *a, **k: None\ndef f(): return 1",
}


@pytest.mark.parametrize("code", LEGITIMATE.values(), ids=LEGITIMATE.keys())
def test_honest_programs_pass(bubblewrap: BubblewrapSandbox, code: str):
    found = verdict(bubblewrap, code)
    assert (found.outcome, found.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("code", "tests"),
    [
        ('def f():\n    """Say one."""\n    return 1\n', (STYLE_TEST,)),
        ("import os\nos.chdir('/tmp')\n\n\ndef f():\n    return 1\n", (STYLE_TEST,)),
        ("import inspect\n\n\ndef f():\n    return 1\n", (STYLE_TEST, "assert 'return 1' in inspect.getsource(f)")),
        ("def f(x: int) -> int:\n    return 1", ("from typing import get_type_hints\nassert get_type_hints(f)['x'] is int",)),
        (
            "def f(x):\n    return 1",
            ("from radon.complexity import cc_visit\nimport inspect", "assert cc_visit(inspect.getsource(f))[0].complexity == 1"),
        ),
        (
            "def f(x):\n    return 1",
            ("from mccabe import get_code_complexity\nimport inspect", "assert get_code_complexity(inspect.getsource(f)) <= 1"),
        ),
    ],
)
def test_tests_that_read_the_source_work(bubblewrap: BubblewrapSandbox, code: str, tests: tuple[str, ...]):
    found = verdict(bubblewrap, code, *tests)
    assert (found.outcome, found.detail) == (Outcome.PASSED, "")


def test_bad_style_fails(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "def f( ):\n  return 1\n", STYLE_TEST)
    assert found.detail.endswith("AssertionError: style")

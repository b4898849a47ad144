"""What passes, what fails and how it reads."""

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.judged_run import LONGEST_DETAIL
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict
from tests.sandbox.programs import programs

LIMITS = Limits(cpu_s=2, wall_s=20)
STYLE_TEST = """\
import pycodestyle
import inspect
def check_style(function, filename="temp.py"):
    with open(filename, "w") as file:
        file.write(inspect.getsource(function))
    assert pycodestyle.StyleGuide(quiet=False).check_files([filename]).total_errors == 0, "style"
check_style(f)"""


def verdict(
    sandbox: BubblewrapSandbox, code: str, *tests: str, limits: Limits = LIMITS
) -> ProgramVerdict:
    return run_function_tests(sandbox, code, tests or ("assert f() == 1",), limits)


def test_code_that_satisfies_its_tests_passes(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "def f(): return 1")
    assert found == ProgramVerdict(outcome=Outcome.PASSED, duration_s=found.duration_s)


def test_the_detail_is_the_end_of_the_traceback(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "def f():\n    return 2", "x = f()", "assert x == 1, f'got {x}'")
    assert found.outcome is Outcome.FAILED
    assert found.detail.endswith("AssertionError: got 2")
    assert "assert x == 1" in found.detail
    assert "judged_program" not in found.detail
    assert found.reason is None


def test_an_exception_in_the_code_names_its_line(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "a = 1\nraise RuntimeError('no')")
    assert found.outcome is Outcome.FAILED
    assert 'File "program.py", line 2' in found.detail


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(:", "SyntaxError"),
        (
            "def f():\n    '''open\n    return 1",
            "SyntaxError",
        ),  # would swallow the tests, were they one text
        ("if True:", "IndentationError"),
        ("x = 'a\0b'", "cannot contain null bytes"),
        ("x = '\ud800'", "utf-8"),
    ],
)
def test_code_that_does_not_compile_fails_with_the_message(
    bubblewrap: BubblewrapSandbox, code: str, message: str
):
    found = verdict(bubblewrap, code, "pass")
    assert found.outcome is Outcome.FAILED
    assert message in found.detail


def test_every_test_must_hold(bubblewrap: BubblewrapSandbox):
    assert (
        verdict(bubblewrap, "def f(): return 1", "assert f() == 1", "assert f() == 2").outcome
        is Outcome.FAILED
    )


@pytest.mark.slow
def test_a_loop_is_a_timeout(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "def f():\n    while True: pass", limits=Limits(cpu_s=1, wall_s=20))
    assert (found.outcome, found.detail) == (Outcome.TIMEOUT, "used up its 1 s of CPU time")


@pytest.mark.slow
def test_a_sleeper_is_a_timeout(bubblewrap: BubblewrapSandbox):
    found = verdict(
        bubblewrap, "import time\ndef f(): time.sleep(60)", limits=Limits(cpu_s=1, wall_s=5)
    )
    assert (found.outcome, found.detail) == (Outcome.TIMEOUT, "did not end within 5 s on the clock")


@pytest.mark.slow
def test_a_thread_that_never_ends_is_a_timeout(bubblewrap: BubblewrapSandbox):
    code = (
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(60)).start()\ndef "
        "f(): return 1"
    )
    assert verdict(bubblewrap, code, limits=Limits(cpu_s=1, wall_s=5)).outcome is Outcome.TIMEOUT


def test_too_much_memory_has_failed(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "def f(): return len(bytearray(4 << 30)) and 1")
    assert found.outcome is Outcome.FAILED
    assert "MemoryError" in found.detail


@pytest.mark.slow
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
    from sandbox.host.resource_limits import memory_cgroup

    with memory_cgroup(1 << 28) as group:
        if group is None:
            pytest.skip("no memory cgroup is writable here: only each process is bounded")
    assert (
        verdict(bubblewrap, code, limits=Limits(cpu_s=5, memory_mb=256)).outcome is Outcome.FAILED
    )


def test_a_crash_of_the_interpreter_has_failed(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGSEGV)")
    assert (found.outcome, found.detail) == (
        Outcome.FAILED,
        "ended with signal 11 before its tests were through",
    )


def test_an_exit_status_after_the_tests_counts(bubblewrap: BubblewrapSandbox):
    found = verdict(
        bubblewrap, "import atexit, os\natexit.register(os._exit, 3)\ndef f(): return 1"
    )
    assert (found.outcome, found.detail) == (
        Outcome.FAILED,
        "passed its tests, then ended with exit status 3",
    )


def test_details_are_bounded_harmless_and_equal_each_time(bubblewrap: BubblewrapSandbox):
    code = "def f(): raise ValueError(object(), 'x' * 9000 + '\\x1b[31m\\u202e' + '\\n' * 3)"
    first, second = (
        verdict(
            bubblewrap, code, "try: f()\nexcept ValueError as e: raise ValueError(str(e.args[1]))"
        )
        for _ in range(2)
    )
    assert first.detail == second.detail
    assert len(first.detail) <= LONGEST_DETAIL
    assert "\x1b" not in first.detail
    assert "\u202e" not in first.detail
    addresses = [
        verdict(bubblewrap, "def f(): raise ValueError(object())").detail for _ in range(2)
    ]
    assert addresses[0] == addresses[1]
    assert "0x..." in addresses[0]


HONEST = {**programs("honest.txt"), "carriage returns": "def f():\r\n    return 1\r\n"}


@pytest.mark.parametrize("code", HONEST.values(), ids=HONEST.keys())
def test_honest_programs_pass(bubblewrap: BubblewrapSandbox, code: str):
    found = verdict(bubblewrap, code)
    assert (found.outcome, found.detail) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("code", "tests"),
    [
        ('def f():\n    """Say one."""\n    return 1\n', (STYLE_TEST,)),
        ("import os\nos.chdir('/tmp')\n\n\ndef f():\n    return 1\n", (STYLE_TEST,)),
        (
            "import inspect\n\n\ndef f():\n    return 1\n",
            (STYLE_TEST, "assert 'return 1' in inspect.getsource(f)"),
        ),
        (
            "def f(x: int) -> int:\n    return 1",
            ("from typing import get_type_hints\nassert get_type_hints(f)['x'] is int",),
        ),
        (
            "def f(x):\n    return 1",
            (
                "from radon.complexity import cc_visit\nimport inspect",
                "assert cc_visit(inspect.getsource(f))[0].complexity == 1",
            ),
        ),
        (
            "def f(x):\n    return 1",
            (
                "from mccabe import get_code_complexity\nimport inspect",
                "assert get_code_complexity(inspect.getsource(f)) <= 1",
            ),
        ),
    ],
)
def test_tests_that_read_the_source_work(
    bubblewrap: BubblewrapSandbox, code: str, tests: tuple[str, ...]
):
    found = verdict(bubblewrap, code, *tests)
    assert (found.outcome, found.detail) == (Outcome.PASSED, "")


def test_bad_style_fails(bubblewrap: BubblewrapSandbox):
    found = verdict(bubblewrap, "def f( ):\n  return 1\n", STYLE_TEST)
    assert found.detail.endswith("AssertionError: style")

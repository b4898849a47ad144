"""All instructions on an answer in one run: nobody's side effects are another's, and what is said
there is said alone, too.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.backends.zygote.backend import ZygoteSandbox
from sandbox.interface import Sandbox
from sandbox.judging.joint_run import run_together, run_variants
from sandbox.judging.judged_run import PythonTests
from sandbox.judging.runners.programs import StatementProgram, UnittestProgram
from sandbox.judging.runners.python_tests import (
    assert_tests,
    check_tests,
    statement_tests,
    unittest_tests,
)
from sandbox.judging.runners.run import run_answer, run_tests
from schemas.run import Limits
from schemas.verdict import FailureReason, ProgramVerdict
from tests.sandbox.plain.corpora import codeif_functions

LIMITS = Limits(cpu_s=2, wall_s=30)
ANSWER = """
import os, random
random.seed(7)
drawn = []
FIRST = random.Random(7).random()
with open("kept", "w") as file: file.write("1")
def draw(): drawn.append(random.random()); return drawn
"""


NOISE = """
import os
def write_everywhere():
    for descriptor in range(3, 30):
        try: os.write(descriptor, (50).to_bytes(8, "big") + bytes(50))
        except OSError: pass
"""
"""A function that writes into every open descriptor, and so into the runner's channel."""


@pytest.fixture(params=["zygote", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest, bubblewrap: BubblewrapSandbox) -> Sandbox:
    return bubblewrap if request.param == "bubblewrap" else ZygoteSandbox()


def together(sandbox: Sandbox, code: str, *tests: str) -> list[str | None]:
    said = run_together(sandbox, code, [statement_tests((text,)) for text in tests], LIMITS)
    return [None if verdict is None else verdict.outcome.value for verdict in said]


def alone(sandbox: Sandbox, code: str, tests: Sequence[str]) -> list[ProgramVerdict]:
    return [
        run_tests(sandbox, StatementProgram(code=code, tests=(text,)), LIMITS) for text in tests
    ]


def without_time(verdict: object) -> ProgramVerdict:
    assert isinstance(verdict, ProgramVerdict)
    return verdict.model_copy(update={"duration_s": 0})


def equal_to_alone(sandbox: Sandbox, code: str, tests: Sequence[str], *, n_runs: int) -> None:
    """An answer's verdicts, but for their times, are those of runs alone; they took so many
    runs.
    """
    joint, n_runs_of_answer = run_answer(
        sandbox, [StatementProgram(code=code, tests=(text,)) for text in tests], LIMITS
    )
    assert [without_time(verdict) for verdict in joint] == [
        without_time(verdict) for verdict in alone(sandbox, code, tests)
    ]
    assert n_runs_of_answer == n_runs


def test_each_instruction_starts_from_the_state_that_the_code_left(sandbox: Sandbox) -> None:
    tests = (
        "assert draw() == [FIRST]",
        "assert draw() == [FIRST], 'names and random states are its own'",
        (
            "os.remove('kept'); open('left', 'w').write('x'); open('/tmp/left', 'w').write('x'); "
            "os.chdir('/')"
        ),
        "os.mkdir('/dev/shm/left'); os.chmod('kept', 0); os.makedirs('a/b'); os.chmod('a', 0)",
        "assert sorted(os.listdir('.')) == ['kept', 'program.py'] and open('kept').read() == '1'",
        (
            "assert all(map(os.path.isdir, map('/tmp/'.__add__, os.listdir('/tmp')))) and not "
            "os.listdir('/dev/shm')"
        ),
        "os.environ['X'] = '1'; int = None",
        "assert int('1') and 'X' not in os.environ",
    )
    assert together(sandbox, ANSWER, *tests) == ["passed"] * 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "bad",
    [
        "import os; os._exit(0)",
        "while True: pass",
        "import sys; sys.exit(0)",
        "raise OSError",
        "assert 0, 'x\\nOSError'",
    ],
)
def test_one_instruction_spoils_no_other_and_an_open_failure_is_decided_alone(
    sandbox: Sandbox, bad: str
) -> None:
    code, tests = "def f(): return 1", ("assert f() == 1", bad, "assert f()", "assert f() < 2")
    assert together(sandbox, code, *tests) == ["passed", None, "passed", "passed"]
    equal_to_alone(sandbox, code, tests, n_runs=2)


@pytest.mark.slow
def test_failures_that_the_tests_decide_need_no_second_run(sandbox: Sandbox) -> None:
    code = "def f(): return 1\ndef g(x): return {}[x]"
    tests = (
        "assert f() == 1",
        "assert 0",
        "1 / 0",
        "assert f() == 2, 'why'",
        "h()",
        "g('a')",
        "f() + 'x'",
        "assert f()",
    )
    assert together(sandbox, code, *tests) == ["passed", *["failed"] * 6, "passed"]
    equal_to_alone(sandbox, code, tests, n_runs=1)


@pytest.mark.slow
def test_a_port_that_an_instruction_left_fails_no_other(sandbox: Sandbox) -> None:
    code = """
import socket
def serve():
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", 5000))
        except OSError:
            return "busy"
        listener.listen(1)
        with socket.create_connection(listener.getsockname()) as client:
            listener.accept()[0].close()
            client.recv(1)
    return "served"
"""
    equal_to_alone(sandbox, code, ("assert serve() == 'served'",) * 3, n_runs=3)


@pytest.mark.slow
@pytest.mark.shared
def test_verdicts_on_published_tests_are_those_of_runs_alone(
    bubblewrap: BubblewrapSandbox, shared_data: Path
) -> None:
    """CodeIF's functions, each with its reference and with that of another task, which fails nearly
    all.
    """
    answers: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for _, program in codeif_functions(shared_data):
        answers[program.code].append(program.tests)
    codes, n_runs, n_failed = list(answers), 0, 0
    for code, other in zip(codes, codes[1:] + codes[:1], strict=True):
        for text in (code, other):
            programs = [StatementProgram(code=text, tests=tests) for tests in answers[code]]
            joint, n_runs_of_answer = run_answer(bubblewrap, programs, LIMITS)
            assert [without_time(v) for v in joint] == [
                without_time(run_tests(bubblewrap, p, LIMITS)) for p in programs
            ]
            n_runs += n_runs_of_answer
            n_failed += sum(
                isinstance(verdict, ProgramVerdict) and verdict.outcome.value != "passed"
                for verdict in joint
            )
    assert n_failed > 500
    assert n_runs < 2 * len(codes) + n_failed / 5


@pytest.mark.parametrize(
    "code",
    [
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), "
            "daemon=True).start()"
        ),
        "import subprocess\nsubprocess.Popen(['sleep', '9'])",
        "file = open('x', 'w')",
        "import signal\nsignal.alarm(9)",
        "import mmap\nshared = mmap.mmap(-1, 4096)",
        "import os\nos.symlink('/', 'x')",
    ],
)
def test_code_that_leaves_what_no_child_has_is_run_for_each(
    bubblewrap: BubblewrapSandbox, code: str
) -> None:
    assert together(bubblewrap, code, "import pycodestyle", "import inspect", "pass") == [None] * 3


@pytest.mark.parametrize(
    "code",
    [
        "def f(:",
        "1 / 0",
        "import sys\nsys.exit(0)",
        "import no_such_module",
        "def f():\n    raise KeyError('x')\nf()",
        "class Odd(BaseException):\n    def __str__(self): 1 / 0\nraise Odd",
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), "
            "daemon=True).start()\nundefined"
        ),
    ],
)
def test_code_that_ends_before_the_tests_needs_one_run(sandbox: Sandbox, code: str) -> None:
    tests = ("pass", "assert 0", "import os")
    equal_to_alone(sandbox, code, tests, n_runs=1)


@pytest.mark.slow
def test_the_time_of_the_code_counts_for_each(bubblewrap: BubblewrapSandbox) -> None:
    spend = (
        "import time\ndef spend(s):\n    end = time.process_time() + s\n    while "
        "time.process_time() < end: pass\n"
    )
    assert together(bubblewrap, f"{spend}spend(0.8)", "spend(0.2)", "spend(1.4)", "spend(0.2)") == [
        "passed",
        None,
        "passed",
    ]


def test_all_kinds_go_together(bubblewrap: BubblewrapSandbox) -> None:
    kinds = [
        assert_tests(("assert f(1) == 2", "assert f(2) == 3")),
        check_tests("def check(g): assert g(1) == 2", "f"),
    ]
    asserts, check = run_together(bubblewrap, "def f(x): return x + 1", kinds, LIMITS)
    assert [[case.name for case in said.cases] for said in (asserts, check) if said] == [
        ["test 1", "test 2"],
        ["check"],
    ]
    module = (
        "import unittest\nclass T(unittest.TestCase):\n    def test_{0}(self): "
        "self.assertEqual(f({0}), {1})\n"
    )
    first, second = (unittest_tests(module.format(n, n + 1)) for n in (1, 2))
    said = run_together(
        bubblewrap,
        "def f(x): return x + 1",
        [first, second, unittest_tests(module.format(3, 5))],
        LIMITS,
    )
    assert [
        [(case.name, case.outcome.value) for case in verdict.cases]
        for verdict in said
        if verdict is not None
    ] == [
        [("T.test_1", "passed")],
        [("T.test_2", "passed")],
        [("T.test_3", "failed")],
    ]
    assert (
        run_answer(bubblewrap, [UnittestProgram(code="f = 1", test=module.format(1, 2))], LIMITS)[1]
        == 1
    )


def test_what_one_child_said_cannot_be_said_again_by_another(bubblewrap: BubblewrapSandbox) -> None:
    """An honest pass, recorded from the pipe, replayed where the tests fail."""
    code = """
import os
real = os.write
def recording(descriptor, data):
    if len(data) > 40: real(2, b'.'); open('/proc/self/fd/2', 'wb').write(b''); STORE.append(data)
    return real(descriptor, data)
STORE = []
def f(): os.write = recording; return 1
"""
    replay = """
for descriptor in range(3, 20):
    for message in STORE or [b'x' * 50]:
        try: real(descriptor, message)
        except OSError: pass
assert 0"""
    assert "passed" not in together(bubblewrap, code, "assert f() == 1", replay, "assert 0")[1:]


def test_tampering_takes_back_every_pass_of_the_run(bubblewrap: BubblewrapSandbox) -> None:
    code, good = f"{NOISE}def f(): return 1", "assert f() == 1"
    assert together(bubblewrap, code, good, "write_everywhere()", good) == [None] * 3
    said, _ = run_answer(
        bubblewrap,
        [StatementProgram(code=code, tests=(text,)) for text in (good, "write_everywhere()")],
        LIMITS,
    )
    assert [verdict.reason for verdict in said if isinstance(verdict, ProgramVerdict)] == [
        None,
        FailureReason.TAMPERING,
    ]


def letters(sandbox: Sandbox, code: str, *variants: PythonTests) -> list[str | None]:
    """One letter for each unit of each variant: `p` or `f`."""
    _, found = run_variants(sandbox, code, variants, LIMITS)
    return [None if units is None else "".join(unit.value[0] for unit in units) for units in found]


def test_each_unit_of_each_variant_has_an_outcome(sandbox: Sandbox) -> None:
    code = "def f(x): return x + 1"
    three = assert_tests(("assert f(1) == 2", "assert f(2) == 4", "assert f(3) == 4"))
    assert letters(sandbox, code, three) == ["pfp"]
    ends = assert_tests(("pass", "import sys; sys.exit(0)", "pass"))
    leaves = assert_tests(("pass", "import os; os._exit(0)", "pass"))
    ends_badly = assert_tests(("pass", "import atexit, os; atexit.register(os._exit, 3)"))
    assert letters(sandbox, code, leaves, three, ends, ends_badly, statement_tests(("pass",))) == [
        "pff",
        "pfp",
        "pfp",
        "ff",
        "p",
    ]


def test_methods_of_unittest_are_units_after_their_module(bubblewrap: BubblewrapSandbox) -> None:
    module = "import unittest\nclass T(unittest.TestCase):\n"
    module += (
        "    def test_a(self): self.assertEqual(f(1), 2)\n    def test_b(self): "
        "self.assertEqual(f(1), {0})\n"
    )
    variants = (
        unittest_tests(text)
        for text in (module.format(2), module.format(3), "1 / 0\n" + module.format(2))
    )
    assert letters(bubblewrap, "def f(x): return x + 1", *variants) == ["ppp", "ppf", "fff"]


def test_what_a_joint_run_cannot_decide_is_left_open(bubblewrap: BubblewrapSandbox) -> None:
    passes, leaves = (
        statement_tests(("pass",)),
        statement_tests(("import subprocess; subprocess.Popen(['sleep', '9'])",)),
    )
    assert letters(bubblewrap, "pass", passes, leaves, passes) == ["p", "f", None]
    assert letters(bubblewrap, "file = open('x', 'w')", passes, passes) == [None, None]
    assert (
        letters(bubblewrap, f"{NOISE}", passes, statement_tests(("write_everywhere()",)), passes)
        == [None] * 3
    )

"""Ways to a pass without doing the task (FACTS). Each program would exit with status 0, or look as if it had passed."""

import pytest

from sandbox.bubblewrap_backend import BubblewrapSandbox
from sandbox.function_tests import run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome

LIMITS = Limits(cpu_s=2, wall_s=10)
TESTS = ("assert f(1) == 4711", "assert f(2) == 4712")
STYLE_TESTS = (
    "import pycodestyle, inspect",
    "open('temp.py', 'w').write(inspect.getsource(f))",
    "assert pycodestyle.StyleGuide().check_files(['temp.py']).total_errors == 0",
)

CHEATS = {
    "sys.exit(0)": "import sys\nsys.exit(0)",
    "exit()": "exit()",
    "raise SystemExit in the function": "def f(x): raise SystemExit(0)",
    "os._exit(0)": "import os\nos._exit(0)",
    "os._exit(0) in the function": "import os\ndef f(x): os._exit(0)",
    "exit handler": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return 0",
    "excepthook": "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\ndef f(x): return 0",
    "exit from a thread": "import threading, os\nthreading.Timer(0.01, os._exit, (0,)).start()\nimport time\ndef f(x): time.sleep(60)",
    "forged output": "import os\nprint('PASSED')\nprint('ready')\nprint('passed', flush=True)\nos._exit(0)",
    "forged report on every descriptor": (
        "import os\nfor fd in range(3, 64):\n    for text in (b'ready\\n', b'passed', b'T' + bytes(8), b'D' + bytes(8)):\n"
        "        try: os.write(fd, text)\n        except OSError: pass\nos._exit(0)"
    ),
    "junk in the channel, then on": "import os\ndef f(x):\n    for fd in range(3, 64):\n        try: os.write(fd, bytes(9))\n        except OSError: pass\n    return 0",
    "closes every descriptor": "import os\nos.closerange(0, 64)\nos._exit(0)",
    "closes every descriptor and runs on": "import os\nos.closerange(3, 64)\ndef f(x): return 4710 + x",
    "kills its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos._exit(0)",
    "kills everything": "import os, signal\nos.kill(-1, signal.SIGKILL)\nos._exit(0)",
    "stops its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nos._exit(0)",
    "leaves by another program": "import os\nos.execv('/bin/true', ['true'])",
    "a child goes on instead": "import os\nif os.fork(): os._exit(0)\ndef f(x): return 4710 + x",
    "a parent that waits, then claims": "import os\np = os.fork()\nif p:\n    os.waitpid(p, 0)\n    os._exit(0)\ndef f(x): return 4710 + x",
    "outlives the run": "import os, time\ndef f(x):\n    if os.fork() == 0:\n        os.setsid(); time.sleep(30); os._exit(0)\n    return 4710 + x",
    "equals everything": "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()",
    "an int that equals everything": "class A(int):\n    def __eq__(self, other): return True\ndef f(x): return A()",
    "equals through a metaclass": "class M(type):\n    def __eq__(cls, other): return True\n    __hash__ = None\nclass A(metaclass=M): pass\ndef f(x): return A",
    "equals by a class made in the function": "def f(x): return type('A', (), {'__eq__': lambda s, o: True})()",
    "built-in isinstance": "import builtins\nbuiltins.isinstance = lambda *a: True\ndef f(x): return 4710 + x",
    "built-in AssertionError": "import builtins\nclass E(Exception): pass\nbuiltins.AssertionError = E\ndef f(x): return 4710 + x",
    "built-ins of the module": "__builtins__ = {**vars(__builtins__), 'isinstance': lambda *a: True}\ndef f(x): return 4710 + x",
    "shadowed isinstance": "isinstance = lambda *a: True\ndef f(x): return 4710 + x",
    "built-in replaced while tested": "import builtins\ndef f(x):\n    builtins.len = lambda x: 1\n    return 4710 + x",
    "skips its tests by tracing": (
        "import sys\ndef f(x):\n    def trace(frame, event, arg): return trace\n    sys.settrace(trace)\n    return 4710 + x"
    ),
    "expected value from the caller's frame": "import sys\ndef f(x): return sys._getframe(1).f_code.co_consts[1]",
    "expected value by inspect": (
        "import inspect\ndef f(x): return [c for c in inspect.currentframe().f_back.f_code.co_consts if isinstance(c, int) and c > 9][0]"
    ),
    "expected value by a traceback": (
        "def f(x):\n    try: 1 / 0\n    except ZeroDivisionError as e:\n"
        "        return [c for c in e.__traceback__.tb_frame.f_back.f_code.co_consts if type(c) is int and c > 9][0]"
    ),
    "expected value by a generator's frame": (
        "def g(): yield [c for c in it.gi_frame.f_back.f_back.f_code.co_consts if type(c) is int and c > 9][0]\n"
        "def f(x):\n    global it\n    it = g()\n    return next(it)"
    ),
    "expected value among all objects": (
        "import gc\ndef f(x):\n    frames = [o for o in gc.get_objects() if type(o).__name__ == 'frame']\n    return 4710 + x"
    ),
    "expected value from memory": ("def f(x):\n    memory = open('/proc/self/mem', 'rb')\n    return 4710 + x"),
    "tests on disk": "import glob, re\ndef f(x):\n    text = ''.join(open(p).read() for p in glob.glob('/box/*') + glob.glob('/tmp/*'))\n    return int(re.search('47\\\\d\\\\d', text.replace('47\\\\', '')).group())",
    "tests in the supervisor's memory": (
        "import os, re\ndef f(x):\n    p = os.getppid()\n    maps = open(f'/proc/{p}/maps').read()\n    return 4710 + x"
    ),
    "the supervisor's descriptors": (
        "import os\nfor n in os.listdir(f'/proc/{os.getppid()}/fd'):\n"
        "    os.write(os.open(f'/proc/{os.getppid()}/fd/{n}', os.O_WRONLY), b'passed')\nos._exit(0)"
    ),
    "code that passes for the tests": "def f(x): return 4710 + x\nexec(compile('import sys; sys._getframe(2)', '<tests>', 'exec'))",
    "a patched unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\ndef f(x): return 0",
    "fills the disk": "import os\nn = 0\nwhile True:\n    open(f'f{n}', 'wb').write(bytes(1 << 20)); n += 1",
    "floods its output": "while True: print('PASSED' * 1000)",
    "forks without end": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "a sitecustomize.py": "open('sitecustomize.py', 'w').write('import os; os._exit(0)')\ndef f(x): return 0",
}
PATCHED_JUDGES = {
    "pycodestyle": "import pycodestyle\npycodestyle.StyleGuide = lambda: type('S', (), {'check_files': lambda s, f: type('R', (), {'total_errors': 0})})()",
    "a pycodestyle of its own": (
        "open('pycodestyle.py', 'w').write('class StyleGuide:\\n def check_files(self, f):\\n  self.total_errors = 0\\n  return self\\n')"
    ),
    "sys.modules": "import sys, types\nsys.modules['pycodestyle'] = types.SimpleNamespace(StyleGuide=lambda: None)",
    "inspect.getsource": "import inspect\ninspect.getsource = lambda f: 'x = 1\\n'",
    "linecache": "import linecache\nlinecache.getlines = lambda *a: ['def f(x):\\n', '    return x\\n']",
    "its own source file": "open(__file__, 'w').write('def f(x):\\n    return x\\n')",
    "an import hook": (
        "import sys\nclass H:\n    def find_spec(self, name, *a):\n        if name == 'pycodestyle': raise SystemExit(0)\nsys.meta_path.insert(0, H())"
    ),
}


@pytest.mark.parametrize("code", CHEATS.values(), ids=CHEATS.keys())
def test_cheats_do_not_pass(bubblewrap: BubblewrapSandbox, code: str):
    found = run_function_tests(bubblewrap, code, TESTS, LIMITS)
    assert found.outcome in (Outcome.FAILED, Outcome.TIMEOUT)
    assert found.detail


@pytest.mark.parametrize("patch", PATCHED_JUDGES.values(), ids=PATCHED_JUDGES.keys())
def test_patched_judges_do_not_pass(bubblewrap: BubblewrapSandbox, patch: str):
    found = run_function_tests(bubblewrap, f"{patch}\ndef f( x ) : return x", STYLE_TESTS, LIMITS)
    assert found.outcome is Outcome.FAILED


def test_a_cheat_names_itself(bubblewrap: BubblewrapSandbox):
    found = run_function_tests(bubblewrap, CHEATS["equals everything"], TESTS, LIMITS)
    assert found.detail == "tampering: objects of class A claim to equal everything"


def test_the_honest_program_passes_the_same_tests(bubblewrap: BubblewrapSandbox):
    assert run_function_tests(bubblewrap, "def f(x): return 4710 + x", TESTS, LIMITS).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    "code", ["sys.exit(1)", "os.kill(os.getppid(), 9)", "os.kill(-1, 9)", "os._exit(127)", "os._exit(126)", "os._exit(73)"]
)
def test_no_candidate_turns_its_run_into_infra(bubblewrap: BubblewrapSandbox, code: str):
    assert run_function_tests(bubblewrap, f"import os, sys\n{code}", TESTS, LIMITS).outcome is Outcome.FAILED

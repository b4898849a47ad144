"""Run of a repository's tests on the Python of its environment.

The script reports each test's outcome over the sealed channel. It is trusted, and imports only the
standard library and the environment's packages. `run_project_tests.py` starts and supervises it.
This module and the modules that it imports run on Python 3.5 and newer, so they contain no
f-strings, and annotations are comments.
"""

import builtins
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from project_runners import run_project
from pytest_suite import run_pytest
from sealed_channel import (
    TO_PROGRAM,
    TO_SUPERVISOR,
    fields,
    opener,
    read_exactly,
    read_field,
    sealer,
    unpacked,
    write_all,
)

for _name in os.listdir(sys.path.pop(0)):
    sys.modules.pop(_name[:-3], None)
if not getattr(sys.flags, "safe_path", False):
    sys.path.pop(0)  # Without `-P`, which older Pythons lack, Python puts a script's folder there.

__builtins__ = dict(builtins.__dict__)  # The candidate can change the shared built-ins.

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - type comments name it

_ANSWERS, _QUESTIONS = 3, 4
_KEY_BYTES = 16


def main():
    # type: () -> None
    """Receive the key and the job from the supervisor, run the tests, and return.

    The interpreter then ends as it would after the test runner.
    """
    exit_now, own, getpid = os._exit, os.getpid(), os.getpid
    for descriptor in (_ANSWERS, _QUESTIONS):
        os.set_inheritable(descriptor, False)
    key = read_exactly(_ANSWERS, _KEY_BYTES)
    seal, unseal = sealer(key, TO_SUPERVISOR), opener(key, TO_PROGRAM)

    def say(*parts):
        # type: (bytes) -> None
        write_all(_QUESTIONS, seal(fields(*parts)))

    def hear():
        # type: () -> list[bytes]
        message = unseal(read_field(_ANSWERS))
        if message is None:
            exit_now(1)
        return unpacked(message or b"")

    def only_here():
        # type: () -> None
        """End this process if the candidate forked it, so that it does not run further tests."""
        if getpid() != own:
            exit_now(0)

    items = hear()
    job = {name.decode(): value for name, value in zip(items[::2], items[1::2])}  # noqa: B905 - Python 3.9 has no `strict`
    _install_packages(job["folders"].decode())
    run = run_project if job["runner"] else run_pytest
    run(job, say, hear, only_here)


def _install_packages(folders):
    # type: (str) -> None
    """Do the work of the `site` module with the environment's packages, including .pth files.

    Args:
        folders: folders of packages; if empty, those of the running Python.
    """
    import site

    for folder in folders.split("\n") if folders else site.getsitepackages():
        if os.path.isdir(folder):
            site.addsitedir(folder)
    site.setquit()
    site.setcopyright()
    site.sethelper()


if __name__ == "__main__":
    main()

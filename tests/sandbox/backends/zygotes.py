"""A zygote to test, and what is seen of it from outside."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sandbox.backends.zygote import pool as zygote_pool
from sandbox.backends.zygote.backend import ZygoteSandbox
from sandbox.backends.zygote.process import Zygote
from sandbox.judging.runners.run import run_function_tests
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from schemas.verdict import ProgramVerdict

LIMITS = Limits(cpu_s=2, wall_s=20)
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZygoteSandbox]:
    """One slot of its own, so that all runs have the same zygote; no other one waits in this
    process.
    """
    zygote_pool.close_idle()
    sandbox = ZygoteSandbox(
        slots=1,
        slot_directory=tmp_path_factory.mktemp("slots"),
        preload=("unittest.mock", "numpy", "no_such_module"),
    )
    try:
        sandbox.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    yield sandbox
    zygote_pool.close_idle()


def verdict(
    sandbox: ZygoteSandbox, code: str, test: str = "assert f() == 1", limits: Limits = LIMITS
) -> ProgramVerdict:
    return run_function_tests(sandbox, code, (test,), limits)


def idle() -> Zygote:
    """The zygote that waits for the next run."""
    return zygote_pool._idle[-1][1]


def pythons_of(zygote: Zygote) -> list[psutil.Process]:
    """Itself, and the process with the libraries; in the order in which they started."""
    inside = psutil.Process(zygote._process.pid).children(recursive=True)
    return sorted(
        (child for child in inside if "python" in child.name()),
        key=lambda child: (child.create_time(), child.pid),
    )

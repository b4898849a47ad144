"""The real sandbox; where the machine cannot run it, its tests are skipped with what it says."""

import pytest

from sandbox.bubblewrap_backend import BubblewrapSandbox
from schemas.errors import SandboxUnavailable


@pytest.fixture(scope="session")
def bubblewrap() -> BubblewrapSandbox:
    sandbox = BubblewrapSandbox()
    try:
        sandbox.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return sandbox

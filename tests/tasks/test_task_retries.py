"""Tasks are run again, after a delay, where that can help, and never instead of asking the
store.
"""

from pathlib import Path

import pytest

from schemas.errors import AnswerMissing, ConfigError, SandboxUnavailable
from tests.prefect_servers import prefect_server


@pytest.mark.long
@pytest.mark.slow
def test_faults_are_retried_and_mistakes_are_not(home: Path) -> None:
    with prefect_server(home):
        from prefect import flow, task

        from tasks.stage import OPTIONS, RETRIES

        tried: list[str] = []

        def make(error: Exception, n_failures: int):
            name = type(error).__name__

            @task(name=name, **{**OPTIONS, "retry_delay_seconds": 0})
            def fails() -> int:
                tried.append(name)
                if tried.count(name) <= n_failures:
                    raise error
                return tried.count(name)

            return fails

        @flow
        def all_of_them() -> tuple[int, int]:
            passing = make(SandboxUnavailable("busy"), 1)(), make(OSError("no room"), RETRIES)()
            for error in (ConfigError("wrong"), AnswerMissing("no line")):
                make(error, 99)(return_state=True)
            return passing

        assert all_of_them() == (2, RETRIES + 1)
        assert (tried.count("ConfigError"), tried.count("AnswerMissing")) == (1, 1)

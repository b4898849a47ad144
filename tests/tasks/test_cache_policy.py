"""Tasks are run again, after a delay, where that can help, and never instead of asking the store."""

from pathlib import Path

import pytest

from flows.prefect_server import prefect_server
from schemas.errors import ConfigError, PublicationWithheld, SandboxUnavailable


@pytest.mark.slow
def test_faults_are_retried_and_mistakes_are_not(home: Path) -> None:
    with prefect_server(home):
        from prefect import flow, task

        from tasks.cache_policy import OPTIONS, RETRIES

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
            for error in (ConfigError("wrong"), PublicationWithheld("bad table")):
                make(error, 99)(return_state=True)
            return passing

        assert all_of_them() == (2, RETRIES + 1)
        assert (tried.count("ConfigError"), tried.count("PublicationWithheld")) == (1, 1)


def test_a_second_call_with_equal_inputs_runs_again() -> None:
    from prefect.cache_policies import NO_CACHE

    from tasks.cache_policy import OPTIONS

    assert OPTIONS["cache_policy"] is NO_CACHE

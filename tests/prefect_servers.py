"""Prefect servers of tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.orchestration.server import PrefectServer, starting_prefect_server


@contextmanager
def prefect_server(home: Path, *, secret_names: tuple[str, ...] = ()) -> Iterator[PrefectServer]:
    """Yield a Prefect server that answers. Flows of this process use it within the block."""
    with starting_prefect_server(home, secret_names=secret_names) as pending:
        yield pending.wait_ready()

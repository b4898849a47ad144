"""Embedders of our own, MiniLM and BGE-M3: FlagEmbedding, served in its own process to all workers of a machine."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from schemas.embedding import EmbedderIdentity
from schemas.run import ModelEndpoint
from tasks.language.embedder_spec import BGE_M3
from tasks.language.servers.embedding_engines import EmbeddingEngines
from tasks.language.servers.loopback_http import LoopbackServer
from tasks.language.servers.server_process import (
    RESTARTS,
    end_with_parent,
    report_ready,
    server_process,
    take_stdout,
)

MAX_ENGINES = 4
"""They share the weights; the number changes no vector."""
_DOWNLOAD_S = 3600.0


@contextmanager
def embedding_server(
    identity: EmbedderIdentity, endpoint: ModelEndpoint, log_dir: Path, *, ready_s: float = 600.0
) -> Iterator[str]:
    """Serve a local embedder on a free loopback port while the block runs; yields the base URL. Ends with its parent.

    Args:
        endpoint: its `path` is the weights' folder; without one BGE-M3's are looked for in the cache, then downloaded.

    Raises:
        ModelUnavailable: the server did not start within `ready_s` seconds, or an hour where weights are downloaded.
    """
    arguments = (
        "--name",
        identity.name,
        "--pooling",
        identity.pooling,
        "--max-length",
        str(identity.max_length),
    )
    where = ("--weights", endpoint.path) if endpoint.path else ()
    log = log_dir / f"embedder-{identity.name}.log"
    module, limit_s = (
        "tasks.language.servers.embedding_server",
        ready_s if endpoint.path else _DOWNLOAD_S,
    )
    with server_process(
        identity.label, module, (*arguments, *where), log, ready_s=limit_s, restarts=RESTARTS
    ) as base_url:
        yield base_url


def _downloaded() -> Path:
    """BGE-M3's weights, from the cache or the network. Ends the process with the remedy where there are none."""
    hub: Any = import_module("huggingface_hub")
    repository, commit = BGE_M3
    try:
        found = hub.snapshot_download(
            repository, revision=commit, ignore_patterns=["onnx/*", "imgs/*", "*.jpg"]
        )
    except Exception as error:  # noqa: BLE001  (the library raises its own, OSError and HTTP errors: each means no weights)
        sys.exit(
            "the weights of bge-m3 are neither in the cache nor could they be downloaded"
            f" ({type(error).__name__}). Name"
            " their folder: --embedder bge-m3@FOLDER, or take the embedder that needs no network:"
            " --embedder embedded:minilm"
        )
    return Path(found)


def main() -> None:
    """The server's own process: serve the model until the parent ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.language.servers.embedding_server", description=__doc__
    )
    parser.add_argument("--name", required=True)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--pooling", choices=("mean", "cls"), required=True)
    parser.add_argument("--max-length", type=int, required=True)
    parser.add_argument("--port", type=int, default=0, help="a free one by default")
    parser.add_argument("--parent", type=int, required=True, help="process whose end ends this one")
    given = parser.parse_args()
    report = take_stdout()
    end_with_parent(given.parent, lambda: None)
    number = min(MAX_ENGINES, os.cpu_count() or 1)
    engines = EmbeddingEngines(
        given.name, given.weights or _downloaded(), given.pooling, given.max_length, number
    )
    server = LoopbackServer(given.name, engines.answer, given.port)
    report_ready(report, server.base_url)
    server.serve_forever()


if __name__ == "__main__":
    main()

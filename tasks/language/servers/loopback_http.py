"""The part of the OpenAI API that Parley's own servers speak on loopback: one model, one kind of question."""

import contextlib
import json
import select
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

AnswerRequest = Callable[[Mapping[str, Any], Callable[[], bool]], Mapping[str, Any]]
"""(body, whether nobody waits for the answer any more) -> answer, or an `error` with its `code`. ValueError: no such request."""


class LoopbackServer(ThreadingHTTPServer):
    """Listens on a port of 127.0.0.1; on a free one without `port`."""

    daemon_threads = True
    request_queue_size = 256
    """Connections that come at once: a night's first requests."""

    def __init__(self, model: str, answer: AnswerRequest, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.model, self.answer = model, answer

    @property
    def base_url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer  # pyright: ignore[reportIncompatibleVariableOverride]  (no other server has this handler)
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """The only model, as GET /models lists it."""
        self._send({"object": "list", "data": [{"id": self.server.model, "object": "model"}]})

    def do_POST(self) -> None:
        """One answer."""
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

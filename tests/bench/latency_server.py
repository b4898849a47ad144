"""An OpenAI-compatible server on loopback that answers after a known time, and keeps count.

Made to cost little: one process, no framework. Fixed latency, or a log-normal one that is a
function of the conversation, so that the ideal time of a whole load is known whoever asks. GET
/stats tells what arrived and when; POST /reset begins anew. It prints its base URL and stops by
itself.
"""

import argparse
import asyncio
import json
import math
import resource
import statistics
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

WORDS = (
    "the loop adds each item once and keeps the name and the order of arguments as they were "
    "asked for in the first request; "
)
OUTPUT_TOKENS = 120
MARK = "@MARK@"
"""In an answer's text: the conversation's digest is put there."""
ANSWER = f"```python\ndef solve(items):\n    return sum(items)  # {MARK}\n```\n" + WORDS * 3
"""No two are alike, so that each has to be tested."""
Replies = Mapping[str, Mapping[str, str]]
"""Model -> last message -> answer."""


class Load:
    """What was asked since the last reset."""

    def __init__(self) -> None:
        self.requests = self.answered = self.in_flight = self.max_in_flight = 0
        self.seen: set[int] = set()
        self.promised_s = 0.0
        self.first_s: float | None = None
        self.last_s: float | None = None
        self.cpu_s = _cpu_s()

    def stats(self) -> dict[str, Any]:
        """Counts; seconds of the window from first request to last answer; seconds of latency
        promised in all.
        """
        window = (
            self.last_s - self.first_s
            if self.first_s is not None and self.last_s is not None
            else None
        )
        return {
            "requests": self.requests,
            "answered": self.answered,
            "repeated": self.requests - len(self.seen),
            "max_in_flight": self.max_in_flight,
            "window_s": window,
            "first_s": self.first_s,
            "last_s": self.last_s,
            "promised_s": self.promised_s,
            "cpu_s": _cpu_s() - self.cpu_s,
        }


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Latency:
    """Seconds until an answer: `mean_s`, or log-normal with that mean and `sigma`, drawn by the
    conversation's own digest.
    """

    def __init__(self, mean_s: float, sigma: float) -> None:
        self.mean_s, self.sigma = mean_s, sigma
        self._normal = statistics.NormalDist()

    def of(self, digest: int) -> float:
        if not self.sigma:
            return self.mean_s
        z = self._normal.inv_cdf((digest % 999_983 + 0.5) / 999_983)
        return self.mean_s * math.exp(self.sigma * z - self.sigma**2 / 2)


class Connection(asyncio.Protocol):
    """One client connection: requests one after another."""

    def __init__(
        self, load: Load, latency: Latency, text: str, name: str, replies: Replies
    ) -> None:
        self.load, self.latency, self.text, self.name, self.replies = (
            load,
            latency,
            text,
            name,
            replies,
        )
        self.buffer = bytearray()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.buffer[:end])
            lower = head.lower()
            at = lower.find(b"content-length:")
            length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            body = bytes(self.buffer[end + 4 : end + 4 + length])
            del self.buffer[: end + 4 + length]
            self.respond(head.split(b" ", 2)[1], body)

    def respond(self, path: bytes, body: bytes) -> None:
        if path.endswith(b"/chat/completions"):
            self.chat(body)
        elif path.endswith(b"/models"):
            self.send({"object": "list", "data": [{"id": self.name, "object": "model"}]})
        elif path == b"/stats":
            self.send(self.load.stats())
        elif path == b"/reset":
            self.load.__init__()
            self.send({"ok": True})
        else:
            self.send({"error": {"message": "unknown path"}}, 404)

    def chat(self, body: bytes) -> None:
        load, now = self.load, time.monotonic()
        request = orjson.loads(body)
        messages = request["messages"]
        name = request["model"] if request["model"] in self.replies else self.name
        text = self.replies.get(name, {}).get(messages[-1]["content"], self.text)
        digest = zlib.crc32(orjson.dumps(messages)) | len(body) << 32
        latency_s = self.latency.of(digest)
        load.requests += 1
        load.seen.add(digest)
        load.promised_s += latency_s
        load.first_s = now if load.first_s is None else load.first_s
        load.in_flight += 1
        load.max_in_flight = max(load.max_in_flight, load.in_flight)
        asyncio.get_running_loop().call_later(
            latency_s, self.answer, load, len(body), digest, name, text
        )

    def answer(self, load: Load, size: int, digest: int, name: str, text: str) -> None:
        load.in_flight -= 1
        load.answered += 1
        load.last_s = time.monotonic()  # of the whole machine: several servers can be compared
        usage = {"prompt_tokens": size // 4, "completion_tokens": OUTPUT_TOKENS}
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text.replace(MARK, f"{digest:x}")},
        }
        self.send(
            {
                "id": "chatcmpl",
                "object": "chat.completion",
                "model": name,
                "choices": [choice],
                "usage": usage,
            }
        )

    def send(self, answer: dict[str, Any], status: int = 200) -> None:
        if self.transport is None:
            return
        body = orjson.dumps(answer)
        head = (
            f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: "
            f"{len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)


async def _serve(
    latency: Latency, text: str, name: str, replies: Replies, max_seconds: float
) -> None:
    load = Load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(load, latency, text, name, replies), "127.0.0.1", 0, backlog=4096
    )
    print(
        json.dumps({"base_url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"}),
        flush=True,
    )
    async with server:
        await asyncio.sleep(max_seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency-s", type=float, default=0.2, help="mean seconds of an answer")
    parser.add_argument(
        "--sigma", type=float, default=0.0, help="of the log-normal; 0 is a fixed latency"
    )
    parser.add_argument(
        "--max-seconds", type=float, default=600.0, help="it stops by itself after this long"
    )
    parser.add_argument(
        "--answer",
        type=Path,
        help=f"a file with the text of every answer; {MARK} in it is put another word for",
    )
    parser.add_argument("--name", default="mock", help="of the model")
    parser.add_argument(
        "--replies",
        type=Path,
        help="a JSON file: model -> last message -> its answer; others get `--answer`",
    )
    asked = parser.parse_args()
    text = asked.answer.read_text() if asked.answer else ANSWER
    replies: Replies = json.loads(asked.replies.read_text()) if asked.replies else {}
    work = _serve(
        Latency(asked.latency_s, asked.sigma), text, asked.name, replies, asked.max_seconds
    )
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


if __name__ == "__main__":
    main()

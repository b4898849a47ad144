"""Running process of another project's agent, and the loopback address where it reaches Parley.

Requests have the chat-completions format, see `tasks.language.endpoints.wire` for its counterpart.
"""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from schemas.dialog import Role
from schemas.episode import Step, ToolCall
from schemas.errors import SandboxUnavailable
from tasks.dialogue.agents.repository.outside.adapter import Adapter, require_python
from tasks.dialogue.agents.repository.tools import FINISH, MESSAGE_USER
from tasks.language.chat_model import Message, ToolSpec

if TYPE_CHECKING:
    from aiohttp import web

START, CHAT, TOOL, MESSAGE = "start", "v1/chat/completions", "tool", "message"
"""URL paths for first message, model, tools and messages to the user. `FINISH` ends the work."""
_END_S = 5.0
_MOST_MIB = 64
_ENVIRON = {"LANG": "C.UTF-8", "NO_PROXY": "127.0.0.1"}


@dataclass
class Request:
    """Request of the agent, which waits for the answer."""

    path: str
    body: Mapping[str, Any]
    answer: "asyncio.Future[Mapping[str, Any]]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Session:
    """Requests of one agent's process, one at a time."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        errors: Path,
        requests: "asyncio.Queue[Request]",
    ) -> None:
        self._process, self._errors, self._requests = process, errors, requests
        self._open: Request | None = None

    async def open_request(self) -> Request:
        """Return the current request. It stays the same until `answer`.

        Raises:
            SandboxUnavailable: The process has ended.
        """
        if self._open is None:
            request = asyncio.ensure_future(self._requests.get())
            end = asyncio.ensure_future(self._process.wait())
            try:
                await asyncio.wait((request, end), return_when=asyncio.FIRST_COMPLETED)
                if not request.done():
                    raise SandboxUnavailable(self._exit_message())
                self._open = request.result()
            finally:
                request.cancel()
                end.cancel()
        return self._open

    def _exit_message(self) -> str:
        lines = self._errors.read_text(errors="replace").strip()[-600:]
        return f"the agent's process ended with status {self._process.returncode}: {lines}"

    def answer(self, answer: Mapping[str, Any]) -> None:
        """Send the answer to the agent's open request."""
        assert self._open is not None
        if not self._open.answer.done():
            self._open.answer.set_result(answer)
        self._open = None


@asynccontextmanager
async def open_session(adapter: Adapter, most_steps: int) -> AsyncIterator[Session]:
    """Start the agent's process. It ends with the context.

    Raises:
        SandboxUnavailable: The agent's environment is missing, or its process does not start.
    """
    from aiohttp import web

    python = require_python(adapter)
    requests: asyncio.Queue[Request] = asyncio.Queue()
    waiting: set[asyncio.Future[Mapping[str, Any]]] = set()
    secret = secrets.token_hex(16)

    async def take(message: "web.Request") -> "web.Response":
        request = Request(message.match_info["path"], await message.json())
        waiting.add(request.answer)
        requests.put_nowait(request)
        try:
            return web.json_response(await request.answer)
        finally:
            waiting.discard(request.answer)

    app = web.Application(client_max_size=_MOST_MIB * 2**20)
    paths = "|".join((START, CHAT, TOOL, MESSAGE, FINISH))
    app.router.add_post(f"/{secret}/{{path:({paths})}}", take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_END_S)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/{secret}"
        with TemporaryDirectory(prefix="parley-agent-") as home:
            errors = Path(home) / "errors"
            argv = (python, str(adapter.driver), address, str(most_steps))
            process = await _start_process(argv, adapter, home, errors)
            try:
                yield Session(process, errors, requests)
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await asyncio.wait_for(process.wait(), _END_S)
    finally:
        # Nobody answers a request that is open at the end. aiohttp would warn about its task.
        for answer in tuple(waiting):
            answer.cancel()
        await runner.cleanup()


async def _start_process(
    argv: tuple[str, ...], adapter: Adapter, home: str, errors: Path
) -> asyncio.subprocess.Process:
    folders = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home}
    try:
        with errors.open("wb") as file:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**folders, **_ENVIRON, **adapter.environ},
                cwd=home,
            )
    except OSError as error:
        raise SandboxUnavailable(f"{argv[0]} cannot be started ({error.strerror})") from error


def messages_in(body: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages in the body of an agent's request."""
    return tuple(_message(message) for message in body["messages"])


def tools_in(body: Mapping[str, Any]) -> tuple[ToolSpec, ...]:
    """Return the tools in the body of an agent's request."""
    functions = [tool["function"] for tool in body.get("tools") or ()]
    return tuple(
        ToolSpec(function["name"], function.get("description", ""), function.get("parameters", {}))
        for function in functions
    )


def _message(message: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(
            call_id=call["id"],
            name=call["function"]["name"],
            arguments=call["function"]["arguments"],
        )
        for call in message.get("tool_calls") or ()
    )
    return Message(
        Role(message["role"]), _text(message.get("content")), calls, message.get("tool_call_id")
    )


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content or ""


def completion(answer: Step) -> Mapping[str, Any]:
    """Return a stored answer as the body of an endpoint's response."""
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in with_messages_last(answer.calls)
    ]
    message = {
        "role": "assistant",
        "content": answer.content or None,
        **({"tool_calls": calls} if calls else {}),
    }
    usage = {
        "prompt_tokens": answer.input_tokens or 0,
        "completion_tokens": answer.output_tokens or 0,
    }
    reason = "length" if answer.finish_reason == "length" else "tool_calls" if calls else "stop"
    return {
        "id": "parley",
        "object": "chat.completion",
        "created": 0,
        "model": "parley",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {**usage, "total_tokens": sum(usage.values())},
    }


def with_messages_last(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the calls with messages to the user after all others, except the end of the work.

    Agents run calls in order. A message ends the turn, and each call must have its result within
    its turn.
    """
    messages = [call for call in calls if call.name == MESSAGE_USER]
    others = [call for call in calls if call.name != MESSAGE_USER]
    end = next((n for n, call in enumerate(others) if call.name == FINISH), len(others))
    return (*others[:end], *messages, *others[end:])


def tool_call(body: Mapping[str, Any], call_id: str) -> ToolCall:
    """Return the tool call that the body of an agent's request describes."""
    return ToolCall(
        call_id=call_id, name=str(body["name"]), arguments=json.dumps(body["arguments"])
    )

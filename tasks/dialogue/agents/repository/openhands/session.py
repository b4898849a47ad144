"""A running SDK: a process of its own Python, and the loopback address at which it asks Parley for everything."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from schemas.errors import SandboxUnavailable

if TYPE_CHECKING:
    from aiohttp import web

VARIABLE = "PARLEY_OPENHANDS"
"""Names the Python that has the SDK."""
_DRIVER = Path(__file__).with_name("driver.py")
_END_S = 5.0
_MOST_MIB = 64
_QUIET = {
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "LOG_LEVEL": "ERROR",
    "NO_PROXY": "127.0.0.1",
}


@dataclass
class Asked:
    """Something that the SDK waits for: `chat`, `tool`, `begun` or `said`."""

    what: str
    given: Mapping[str, Any]
    answer: "asyncio.Future[Mapping[str, Any]]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Session:
    """What the SDK asks, one thing after another. It waits until it is answered."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Path, asked: "asyncio.Queue[Asked]") -> None:
        self._process, self._errors, self._asked = process, errors, asked
        self._open: Asked | None = None

    async def open(self) -> Asked:
        """What it waits for now; the same until `answer`.

        Raises:
            SandboxUnavailable: its process has ended.
        """
        if self._open is None:
            asked = asyncio.ensure_future(self._asked.get())
            ended = asyncio.ensure_future(self._process.wait())
            try:
                await asyncio.wait((asked, ended), return_when=asyncio.FIRST_COMPLETED)
                if not asked.done():
                    said = self._errors.read_text(errors="replace").strip()[-600:]
                    raise SandboxUnavailable(f"the OpenHands SDK ended with status {self._process.returncode}: {said}")
                self._open = asked.result()
            finally:
                asked.cancel()
                ended.cancel()
        return self._open

    def answer(self, answer: Mapping[str, Any]) -> None:
        """Answer what is open."""
        assert self._open is not None
        if not self._open.answer.done():
            self._open.answer.set_result(answer)
        self._open = None


@asynccontextmanager
async def open_session(most_steps: int) -> AsyncIterator[Session]:
    """Start the SDK; it is ended with the context.

    Raises:
        SandboxUnavailable: no Python with the SDK is named, or it does not start.
    """
    from aiohttp import web

    python = os.environ.get(VARIABLE)
    if not python:
        raise SandboxUnavailable(
            "agent openhands needs the package openhands-sdk in an environment of its own (Python 3.12 or newer):"
            f" name its Python by the variable {VARIABLE}"
        )
    asked: asyncio.Queue[Asked] = asyncio.Queue()
    secret = secrets.token_hex(16)

    async def take(request: "web.Request") -> "web.Response":
        one = Asked(request.match_info["what"].rpartition("/")[2], await request.json())
        asked.put_nowait(one)
        return web.json_response(await one.answer)

    app = web.Application(client_max_size=_MOST_MIB * 2**20)
    app.router.add_post(f"/{secret}/{{what:(v1/chat/completions|tool|begun|said)}}", take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_END_S / 10)  # what it waits for then is never answered
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        with TemporaryDirectory(prefix="parley-openhands-") as home:
            errors = Path(home) / "errors"
            process = await _started(python, f"http://127.0.0.1:{port}/{secret}", most_steps, home, errors)
            try:
                yield Session(process, errors, asked)
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await asyncio.wait_for(process.wait(), _END_S)
    finally:
        await runner.cleanup()


async def _started(python: str, address: str, most_steps: int, home: str, errors: Path) -> asyncio.subprocess.Process:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", **_QUIET}
    try:
        with errors.open("wb") as file:
            return await asyncio.create_subprocess_exec(
                *(python, "-P", str(_DRIVER), address, str(most_steps)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment,
                cwd=home,
            )
    except OSError as error:
        raise SandboxUnavailable(f"{VARIABLE}={python}: cannot be started ({error.strerror})") from error

"""Launcher for `vllm:PATH_OR_REPO`: vLLM's own OpenAI-compatible server on a free loopback port, while a block runs."""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from schemas.errors import UsageError
from tasks.language.server_process import end_with_parent, report_ready, server_process, take_stdout

HUB_KEYS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Gated weights are fetched with them."""


@contextmanager
def vllm_server(
    model: str,
    log_dir: Path,
    *,
    served_name: str | None = None,
    revision: str | None = None,
    extra: tuple[str, ...] = (),
    ready_s: float = 900.0,
) -> Iterator[str]:
    """Serve a model by vLLM; yields the base URL.

    Args:
        model: folder of weights, or repository name.
        served_name: the name it answers to; by default the folder's name, or the repository's.
        extra: further arguments of vLLM's server, for example ("--dtype", "float32") where answers must not depend on the batch.
        ready_s: loading large weights takes minutes.

    Raises:
        UsageError: the extra `vllm` is not installed.
        ModelUnavailable: the server did not start; holds the log's last lines.
    """
    if find_spec("vllm") is None:
        raise UsageError(f'model vllm:{model}: vLLM is not installed; pip install "parley-eval[vllm]"')
    name = served_name or (Path(model).name if Path(model).is_dir() else model)
    pinned = ("--revision", revision) if revision else ()
    arguments = ("--model", model, "--served-model-name", name, *pinned, *extra)
    log = log_dir / f"vllm-{name.replace('/', '--')}.log"
    module = "tasks.language.vllm_server"
    with server_process(f"vllm:{name}", module, arguments, log, ready_s=ready_s, keys=HUB_KEYS) as base_url:
        yield base_url


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _is_healthy(port: int) -> bool:
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/health", timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


def main() -> None:
    """The process that watches over vLLM's: serve the model until the parent ends."""
    parser = argparse.ArgumentParser(prog="python -m tasks.language.vllm_server", description=__doc__)
    parser.add_argument("--parent", type=int, required=True, help="process whose end ends this one, and vLLM with it")
    arguments, server_arguments = parser.parse_known_args()
    report, port = take_stdout(), _free_port()
    command = [sys.executable, "-P", "-m", "vllm.entrypoints.openai.api_server", "--generation-config", "vllm"]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([*command, *address, *server_arguments], stdin=subprocess.DEVNULL, start_new_session=True)
    end_with_parent(arguments.parent, lambda: os.killpg(server.pid, signal.SIGKILL))
    while not _is_healthy(port) and server.poll() is None:
        time.sleep(0.5)
    if server.poll() is None:
        report_ready(report, f"http://127.0.0.1:{port}/v1")
    code = server.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    sys.exit(code or 1)


if __name__ == "__main__":
    main()

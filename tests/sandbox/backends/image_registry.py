"""A registry of Docker images on loopback, beside a daemon that pulls from it.

Needs Debian's package docker-registry.
"""

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandbox.backends.docker.daemon import client
from schemas.errors import SandboxUnavailable
from tests.sandbox.backends.daemon import started_daemon, why_not

PROGRAM = "docker-registry"
SHORTEST_LAYER = 100_000
_READY_S = 60.0
_LISTENS = re.compile(r"listening on (127\.0\.0\.1:\d+)")
_SETTINGS = (
    'version: 0.1\nstorage: {{filesystem: {{rootdirectory: "{}"}}}}\nhttp: {{addr: '
    '"127.0.0.1:0"}}\n'
)


@dataclass(frozen=True)
class ImageRegistry:
    """A registry that runs, and a daemon.

    Args:
        api: the client of the daemon.
        variables: of the environment in which Parley uses this daemon.
        address: host and port of the registry.
        folder: of its files.
        log: of its requests.
    """

    api: Any
    variables: dict[str, str]
    address: str
    folder: Path
    log: Path

    def push(self, name: str) -> str:
        """Push a local image and remove it here; return its name, pinned by digest."""
        events = list(self.api.push(name, stream=True, decode=True))
        errors = [event["error"] for event in events if "error" in event]
        assert not errors, errors
        (digest,) = (event["aux"]["Digest"] for event in events if "aux" in event)
        self.api.remove_image(name)
        return f"{name.removesuffix(':latest')}@{digest}"

    def push_small(self, repository: str, n_bytes: int) -> str:
        """Push an image with one file of random bytes; return its name, pinned by digest."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo("content")
            entry.size = n_bytes
            tar.addfile(entry, io.BytesIO(os.urandom(n_bytes)))
        return self.push_archive(repository, packed.getvalue())

    def push_archive(self, repository: str, packed: bytes) -> str:
        """Push an image of an archive's files; return its name, pinned by digest."""
        name = f"{self.address}/{repository}"
        self.api.import_image_from_data(packed, repository=name, tag="latest")
        return self.push(f"{name}:latest")

    def remove_layer(self, image: str) -> None:
        """Remove the content of an image's last layer: its registry knows the image still, and a
        pull fails.
        """
        shutil.rmtree(self._content(self._layers(image)[-1]["digest"]).parent)

    def n_bytes_to_send(self, image: str) -> int:
        """Return the compressed size of an image's layers in bytes."""
        return sum(layer["size"] for layer in self._layers(image))

    def _layers(self, image: str) -> list[dict[str, Any]]:
        return json.loads(self._content(image.partition("@")[2]).read_text())["layers"]

    def _content(self, digest: str) -> Path:
        number = digest.removeprefix("sha256:")
        return self.folder / "docker/registry/v2/blobs/sha256" / number[:2] / number / "data"

    def is_here(self, image: str) -> bool:
        """Return whether the daemon has an image."""
        return any(image in (found["RepoDigests"] or ()) for found in self.api.images(all=True))

    def n_layers_sent(self, repository: str) -> int:
        """Return how many layers of a repository the registry has sent; an image's settings are
        shorter than any layer here.
        """
        sent = re.findall(
            rf'"GET /v2/{re.escape(repository)}/blobs/[^"]*" 200 (\d+)', self.log.read_text()
        )
        return sum(int(n_bytes) >= SHORTEST_LAYER for n_bytes in sent)


@contextmanager
def started_registry() -> Iterator[ImageRegistry]:
    """Start a registry, and a daemon where none runs. Skips the test where either cannot be had."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"no registry of images: apt-get install {PROGRAM}")
    with ExitStack() as stack:
        address = None
        try:
            client(None, 1)
        except SandboxUnavailable:
            if why_not() is not None:
                pytest.skip(f"no Docker daemon: {why_not()}")
            address = stack.enter_context(started_daemon())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-registry-")))
        (folder / "settings.yml").write_text(_SETTINGS.format(folder / "files"))
        with (folder / "log").open("wb") as log:
            command = (
                "setpriv",
                "--pdeathsig",
                "KILL",
                PROGRAM,
                "serve",
                str(folder / "settings.yml"),
            )
            process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
        stack.callback(process.kill)
        listens = _listens(folder / "log", process)
        variables = {"DOCKER_HOST": address} if address else {}
        yield ImageRegistry(
            client(address, 2).api, variables, listens, folder / "files", folder / "log"
        )


def _listens(log: Path, process: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + _READY_S
    while process.poll() is None and time.monotonic() < deadline:
        if found := _LISTENS.search(log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"{PROGRAM} did not get up: {log.read_text()[-500:]}")

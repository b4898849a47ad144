"""The Docker backend where no daemon is needed: what is refused, what is said, what the filter
denies, whose a container is.
"""

import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sandbox import registry
from sandbox.backends.docker import daemon as docker_daemon
from sandbox.backends.docker.backend import DockerSandbox
from sandbox.backends.docker.image import pinned
from sandbox.backends.docker.messages import pack, receive
from sandbox.host.seccomp import DENIED_CALLS, docker_profile
from schemas.errors import ConfigError, SandboxUnavailable
from schemas.run import Limits

IMAGES = Path(__file__).resolve().parents[3] / "sandbox" / "images"
LOCK = Path(__file__).resolve().parents[3] / "requirements.lock"
IMAGE = f"sha256:{'1' * 64}"


@pytest.mark.parametrize(
    "name",
    [
        "python",
        "python:3.11",
        "python:3.11@sha256:12",
        "sha256:12",
        f"sha256:{'G' * 64}",
        f"{IMAGE} x",
    ],
)
def test_an_image_that_is_not_pinned_is_refused_with_the_command(name: str):
    with pytest.raises(
        ConfigError, match=re.escape(f"`docker image inspect --format '{{{{.Id}}}}' {name}`")
    ):
        DockerSandbox(image=name).check()


@pytest.mark.parametrize("name", [IMAGE, f"python@{IMAGE}", f"example.org:5000/a/b@{IMAGE}"])
def test_a_digest_is_pinned(name: str):
    assert pinned(name) == name


def test_without_an_image_the_message_says_how_to_build_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PARLEY_DOCKER_IMAGE", raising=False)
    for use in (registry.load("docker").check, registry.load("docker").fingerprint):
        with pytest.raises(
            SandboxUnavailable, match=r"docker build .* export PARLEY_DOCKER_IMAGE="
        ):
            use()


def test_the_image_may_be_named_by_a_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PARLEY_DOCKER_IMAGE", IMAGE)
    monkeypatch.setenv("PARLEY_DOCKER_RUNTIME", "runsc")
    assert registry.load("docker").fingerprint() == f"docker {IMAGE}; runtime runsc"


def test_no_daemon_says_what_to_start(tmp_path: Path):
    sandbox = DockerSandbox(
        image=IMAGE, base_url=f"unix://{tmp_path}/none", slot_directory=tmp_path
    )
    with pytest.raises(
        SandboxUnavailable, match=r"could not reach its daemon.*systemctl start docker.*DOCKER_HOST"
    ):
        sandbox.check()


@contextmanager
def daemon_that_answers(path: Path, answer: bytes) -> Iterator[str]:
    """A server in dockerd's place that fails as dockerd is known to fail: it answers every request
    alike, or never.
    """
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        kept: list[socket.socket] = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    kept.append(server.accept()[0])
                    if answer:
                        kept[-1].recv(65536)
                        kept[-1].sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in kept:
                connection.close()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "did not answer within 0.2 s"),
        (
            b"HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n"
            + b'{"message":"disk full!"}',
            "disk full!",
        ),
        (b"no HTTP at all\r\n\r\n", "could not reach its daemon"),
    ],
    ids=["hangs", "refuses", "is no daemon"],
)
def test_a_fault_of_the_daemon_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, message: str
):
    if not answer:  # another must be there before its time is over
        monkeypatch.setattr(docker_daemon, "TIMEOUT_S", 0.2)
    with daemon_that_answers(tmp_path / "socket", answer) as address:
        with pytest.raises(SandboxUnavailable, match=message):
            with DockerSandbox(image=IMAGE, base_url=address, slot_directory=tmp_path).session(
                Limits()
            ):
                pass


def test_the_connection_pool_is_sized_to_the_concurrency(tmp_path: Path):
    version = b'{"ApiVersion":"1.41"}'
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(version)
        + version
    )
    with daemon_that_answers(tmp_path / "socket", answer) as address:
        adapter: Any = docker_daemon.client(address, 16).api.get_adapter("http+docker://localhost")
    assert adapter.max_pool_size >= 3 * 16


def test_the_filter_denies_what_bubblewraps_does():
    rules = json.loads(docker_profile())
    always = {
        name
        for rule in rules["syscalls"]
        if not rule["args"] and rule["errnoRet"] == 1
        for name in rule["names"]
    }
    assert always >= set(DENIED_CALLS)
    assert always >= {
        "ptrace",
        "mount",
        "bpf",
        "keyctl",
        "userfaultfd",
        "io_uring_setup",
        "init_module",
        "unshare",
        "setns",
    }
    assert {rule["action"] for rule in rules["syscalls"]} == {"SCMP_ACT_ERRNO"}
    conditional = [name for rule in rules["syscalls"] if rule["args"] for name in rule["names"]]
    assert sorted(set(conditional)) == ["clone", "ioctl", "prlimit64", "socket"]


@pytest.mark.parametrize(
    ("label", "state", "age_s", "is_abandoned"),
    [
        (docker_daemon.owner_label(), "running", 0, False),
        (docker_daemon.owner_label(), "exited", 7200, False),
        (docker_daemon.owner_label() + "1", "running", 0, True),
        (f"{docker_daemon._boot_and_namespace()}/999999999/1", "running", 0, True),
        ("another-boot/1/2/3", "running", 7200, False),
        ("another-boot/1/2/3", "exited", 1, False),
        ("another-boot/1/2/3", "exited", 7200, True),
        ("", "exited", 7200, False),
        ("something else", "exited", 7200, False),
    ],
    ids=range(9),
)
def test_whose_owner_is_dead(label: str, state: str, age_s: float, is_abandoned: bool):
    container = {
        "Labels": {docker_daemon.OWNER: label},
        "State": state,
        "Created": int(time.time() - age_s),
    }
    assert docker_daemon._is_abandoned(container) is is_abandoned


@pytest.mark.parametrize(
    ("wire", "error"),
    [
        (b"\0" * 8, ValueError),
        (b"\xff" * 8, ValueError),
        (pack({"a": 1}, b"blob")[:-1], EOFError),
        ((9).to_bytes(8, "big") + (9).to_bytes(4, "big") + b"not {}", ValueError),
        ((6).to_bytes(8, "big") + (2).to_bytes(4, "big") + b"[]", ValueError),
        ((6).to_bytes(8, "big") + (2).to_bytes(4, "big") + b"{}", ValueError),
    ],
    ids=["empty", "too long", "torn", "no JSON", "no head", "no sizes"],
)
def test_what_is_no_message_is_refused(wire: bytes, error: type[Exception]):
    unread = bytearray(wire)

    def read_exactly(size: int) -> bytes:
        if len(unread) < size:
            raise EOFError
        taken = bytes(unread[:size])
        del unread[:size]
        return taken

    with pytest.raises(error):
        receive(read_exactly, 1000)


@pytest.mark.parametrize(
    ("has_bwrap", "platform", "docker_host", "expected"),
    [
        (True, "linux", "tcp://somewhere:2375", "zygote"),
        (False, "linux", "tcp://somewhere:2375", "docker"),
        (False, "linux", "", "zygote"),
        (False, "darwin", "", "docker"),
    ],
)
def test_docker_is_the_default_only_without_bubblewrap(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    has_bwrap: bool,
    platform: str,
    docker_host: str,
    expected: str,
):
    if not docker_host and os.path.exists("/var/run/docker.sock"):
        pytest.skip("a Docker daemon runs here")
    if has_bwrap:
        (tmp_path / "bwrap").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", docker_host)
    monkeypatch.setattr(sys, "platform", platform)
    assert registry.default_name() == expected


@pytest.mark.parametrize(
    "recipe", sorted(IMAGES.glob("*/Dockerfile")), ids=lambda path: path.parent.name
)
def test_images_are_built_on_a_base_that_must_be_named_and_run_as_nobody(recipe: Path):
    lines = [line for line in recipe.read_text().splitlines() if line and not line.startswith("#")]
    assert lines[:2] == ["ARG BASE", "FROM ${BASE}"]
    assert lines[-1] == "USER 20000:20000"


def test_the_python_image_has_parleys_own_versions():
    pins = (IMAGES / "python" / "requirements.txt").read_text().split()
    assert {"numpy", "pandas", "pycodestyle", "mccabe", "radon"} <= {
        pin.partition("==")[0] for pin in pins
    }
    assert set(pins) <= set(LOCK.read_text().splitlines())

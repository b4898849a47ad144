"""How an image is pinned by digest and pulled, by what a daemon's answers say. No daemon is needed."""

import os
import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
import requests
from docker.errors import APIError, ImageNotFound, NotFound

from sandbox.backends.docker.image import had
from sandbox.harness import run_function_tests
from schemas.errors import SandboxUnavailable, SourceUnreadable

ID, DIGEST = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
NAME = "swebench/sweb.eval.x86_64.a_1776_a-1:latest"
REFUSED = "dial tcp 127.0.0.1:5000: connect: connection refused"


class Daemon:
    """Answers as Docker's API client does."""

    def __init__(self, found: dict[str, Any] | None, pulled: Exception | list[dict[str, str]] | None = None) -> None:
        self.found, self.pulled, self.asked = found, pulled, 0

    def inspect_image(self, name: str) -> dict[str, Any]:
        if self.found is None:
            raise ImageNotFound("No such image")
        return self.found

    def pull(self, name: str, **_: object) -> Iterator[dict[str, str]]:
        self.asked += 1
        if isinstance(self.pulled, Exception):
            raise self.pulled
        yield from self.pulled or ()
        self.found = {"Id": ID, "RepoDigests": []}


def refusal(kind: type[APIError], status: HTTPStatus, said: str) -> APIError:
    response = requests.Response()
    response.status_code = status
    return kind("refused", response=response, explanation=said)


@pytest.mark.parametrize(
    ("name", "digests", "pinned"),
    [
        (NAME, [f"{NAME.removesuffix(':latest')}@{DIGEST}"], f"{NAME.removesuffix(':latest')}@{DIGEST}"),
        ("localhost:5000/x/y", [f"x/y@{DIGEST}", f"localhost:5000/x/y@{DIGEST}"], f"localhost:5000/x/y@{DIGEST}"),
        (f"x/y@{DIGEST}", [f"x/y@{DIGEST}"], f"x/y@{DIGEST}"),
        (NAME, [f"another/name@{DIGEST}"], ID),
        (NAME, None, ID),
    ],
)
def test_an_image_that_is_here_is_pinned_and_not_pulled(name: str, digests: list[str] | None, pinned: str) -> None:
    daemon = Daemon({"Id": ID, "RepoDigests": digests})
    assert (had(daemon, name), daemon.asked) == (pinned, 0)


def test_an_image_that_is_not_here_is_pulled_once() -> None:
    daemon = Daemon(None, [{"status": "Pulling"}, {"status": "Done"}])
    assert (had(daemon, NAME), daemon.asked, had(daemon, NAME), daemon.asked) == (ID, 1, ID, 1)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(NotFound, HTTPStatus.NOT_FOUND, "pull access denied, repository does not exist or may require 'docker login'"),
        refusal(APIError, HTTPStatus.INTERNAL_SERVER_ERROR, "manifest for it not found: manifest unknown"),
        [{"status": "Pulling"}, {"error": "manifest unknown: manifest unknown"}],
    ],
)
def test_an_image_that_no_registry_has_is_missing(answer: Exception | list[dict[str, str]]) -> None:
    with pytest.raises(SourceUnreadable, match=f"no registry has the Docker image {NAME}"):
        had(Daemon(None, answer), NAME)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(APIError, HTTPStatus.INTERNAL_SERVER_ERROR, REFUSED),
        refusal(APIError, HTTPStatus.TOO_MANY_REQUESTS, "toomanyrequests: You have reached your pull rate limit"),
        [{"status": "Pulling"}, {"error": REFUSED}],
        requests.ConnectionError(REFUSED),
    ],
)
def test_where_a_registry_does_not_answer_nothing_is_known_of_the_image(answer: Exception | list[dict[str, str]]) -> None:
    with pytest.raises(SandboxUnavailable, match="docker could not pull the image"):
        had(Daemon(None, answer), NAME)


@pytest.mark.skipif(sys.platform != "linux", reason="a system call of Linux")
def test_a_childs_end_is_told_by_a_python_without_pidfd_open(monkeypatch: pytest.MonkeyPatch) -> None:
    import select

    monkeypatch.delattr(os, "pidfd_open")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    ended = run_function_tests.watched(pid)
    assert not os.get_inheritable(ended)
    assert select.select([ended], [], [], 0)[0] == []
    os.close(writing)
    assert select.select([ended], [], [], 10)[0] == [ended]
    os.waitpid(pid, 0)
    os.close(ended)
    with pytest.raises(OSError, match="pidfd_open"):
        run_function_tests.watched(pid)

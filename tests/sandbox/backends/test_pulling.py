"""How an image is pinned by digest and pulled, by what a daemon's answers say.

No daemon is needed.
"""

import os
import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
import requests
from docker.errors import APIError, ImageNotFound, NotFound

from sandbox.backends.docker.pulling import digest_of, pull
from sandbox.harness import run_function_tests
from schemas.errors import SandboxUnavailable, SourceUnreadable

ID, DIGEST = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
NAME = "swebench/sweb.eval.x86_64.a_1776_a-1:latest"
REFUSED = "dial tcp 127.0.0.1:5000: connect: connection refused"


class Daemon:
    """Answers as Docker's API client does."""

    def __init__(
        self,
        found: dict[str, Any] | None,
        pulled: Exception | list[dict[str, Any]] | None = None,
        listed: Exception | str = DIGEST,
    ) -> None:
        self.found, self.pulled, self.listed, self.asked = found, pulled, listed, 0

    def inspect_image(self, name: str) -> dict[str, Any]:
        if self.found is None:
            raise ImageNotFound("No such image")
        return self.found

    def inspect_distribution(self, name: str) -> dict[str, Any]:
        if isinstance(self.listed, Exception):
            raise self.listed
        return {"Descriptor": {"digest": self.listed}}

    def pull(self, name: str, **_: object) -> Iterator[dict[str, Any]]:
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
        (
            NAME,
            [f"{NAME.removesuffix(':latest')}@{DIGEST}"],
            f"{NAME.removesuffix(':latest')}@{DIGEST}",
        ),
        (
            "localhost:5000/x/y",
            [f"x/y@{DIGEST}", f"localhost:5000/x/y@{DIGEST}"],
            f"localhost:5000/x/y@{DIGEST}",
        ),
        (f"x/y@{DIGEST}", [f"x/y@{DIGEST}"], f"x/y@{DIGEST}"),
        (NAME, [f"another/name@{DIGEST}"], ID),
        (NAME, None, ID),
    ],
)
def test_an_image_that_is_here_is_pinned_and_not_pulled(
    name: str, digests: list[str] | None, pinned: str
) -> None:
    daemon = Daemon({"Id": ID, "RepoDigests": digests})
    assert (digest_of(daemon, name), daemon.asked) == (pinned, 0)


def test_a_registry_is_asked_for_the_digest_of_an_image_that_is_not_here() -> None:
    daemon = Daemon(None)
    assert (digest_of(daemon, NAME), daemon.asked) == (
        f"{NAME.removesuffix(':latest')}@{DIGEST}",
        0,
    )
    assert digest_of(daemon, f"x/y@{DIGEST}") == f"x/y@{DIGEST}"


def test_a_pull_tells_the_bytes_of_each_layer_once_and_can_be_ended() -> None:
    def downloading(layer: str, n_bytes: int) -> dict[str, Any]:
        return {
            "id": layer,
            "status": "Downloading",
            "progressDetail": {"current": n_bytes, "total": 9},
        }

    events = [downloading("a", 2), downloading("b", 5), downloading("a", 7), {"status": "Done"}]
    reports: list[int] = []
    pull(Daemon(None, events), NAME, reports.append)
    assert reports == [2, 5, 5]
    with pytest.raises(SandboxUnavailable, match="was cancelled"):
        pull(Daemon(None, events), NAME, is_over=lambda: True)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(
            NotFound,
            HTTPStatus.NOT_FOUND,
            "pull access denied, repository does not exist or may require 'docker login'",
        ),
        refusal(
            APIError,
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "manifest for it not found: manifest unknown",
        ),
        [{"status": "Pulling"}, {"error": "manifest unknown: manifest unknown"}],
    ],
)
def test_an_image_that_no_registry_has_is_missing(answer: Exception | list[dict[str, Any]]) -> None:
    with pytest.raises(SourceUnreadable, match=f"no registry has the Docker image {NAME}"):
        pull(Daemon(None, answer), NAME)
    if isinstance(answer, Exception):
        with pytest.raises(SourceUnreadable, match=f"no registry has the Docker image {NAME}"):
            digest_of(Daemon(None, listed=answer), NAME)


def test_a_registry_that_denies_a_repository_does_not_have_it_for_us() -> None:
    denied = refusal(
        APIError, HTTPStatus.FORBIDDEN, "errors: denied: requested access to the resource is denied"
    )
    with pytest.raises(SourceUnreadable, match="access to the resource is denied"):
        digest_of(Daemon(None, listed=denied), NAME)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(APIError, HTTPStatus.INTERNAL_SERVER_ERROR, REFUSED),
        refusal(
            APIError,
            HTTPStatus.TOO_MANY_REQUESTS,
            "toomanyrequests: You have reached your pull rate limit",
        ),
        [{"status": "Pulling"}, {"error": REFUSED}],
        requests.ConnectionError(REFUSED),
    ],
)
def test_where_a_registry_does_not_answer_nothing_is_known_of_the_image(
    answer: Exception | list[dict[str, Any]],
) -> None:
    with pytest.raises(SandboxUnavailable, match="docker could not pull the image"):
        pull(Daemon(None, answer), NAME)
    if isinstance(answer, Exception):
        with pytest.raises(SandboxUnavailable, match=f"docker could not .* the image {NAME}"):
            digest_of(Daemon(None, listed=answer), NAME)


@pytest.mark.skipif(sys.platform != "linux", reason="a system call of Linux")
def test_a_childs_end_is_told_by_a_python_without_pidfd_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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

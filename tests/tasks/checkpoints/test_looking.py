"""All sources of a night: newest first, copies named; revisions of a repository, models of an endpoint, and absent ones."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.night.checkpoint import Checkpoint
from tasks.checkpoints.looking import Sighting, look
from tasks.checkpoints.record import keep_checkpoints, known_checkpoints
from tasks.checkpoints.source import CheckpointSource
from tasks.storage.home import Home
from tests.fixtures.model_server import model_server
from tests.tasks.checkpoints.weight_folders import LONG_AGO_S, MINUTE_S, checkpoint

HUB: dict[str, Any] = {
    "/api/models/org/tiny/refs": {
        "branches": [{"name": "main", "ref": "refs/heads/main", "targetCommit": "c" * 40}],
        "tags": [
            {"name": "step-100", "ref": "refs/tags/step-100", "targetCommit": "a" * 40},
            {"name": "final", "ref": "refs/tags/final", "targetCommit": "c" * 40},
        ],
    },
    f"/api/models/org/tiny/commits/{'a' * 40}": [{"id": "a" * 40, "date": "2026-11-01T00:00:00.000Z"}],
    f"/api/models/org/tiny/commits/{'c' * 40}": [{"id": "c" * 40, "date": "2026-11-02T00:00:00.000Z"}],
}


@contextmanager
def hub(token: str = "") -> Iterator[str]:
    """A hub on loopback that knows one repository, for those who have the token."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers.get("Authorization", "") == (f"Bearer {token}" if token else "")
            answer = HUB.get(self.path.partition("?")[0]) if known else None
            body = json.dumps(answer).encode()
            self.send_response(200 if answer is not None else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def seen(tmp_path: Path, *sources: dict[str, Any]) -> Sighting:
    given = [CheckpointSource.model_validate(source) for source in sources]
    return look(Home(tmp_path / "home"), given, tmp_path, LONG_AGO_S + 600 * MINUTE_S)


def test_newest_first_and_of_copies_the_oldest_counts(tmp_path: Path) -> None:
    for number, weights in ((1, b"same"), (2, b"diff"), (3, b"same")):
        checkpoint(tmp_path / "ckpts" / f"step-{number}", weights=weights, changed_s=LONG_AGO_S + number * MINUTE_S)
    found = seen(tmp_path, {"directory": "ckpts"}).found
    assert [(one.step, one.is_due) for one in found] == [(3, False), (2, True), (1, True)]
    assert found[0].copy_of == found[2].path


def test_a_source_that_cannot_be_read_keeps_no_other_back(tmp_path: Path) -> None:
    checkpoint(tmp_path / "ckpts" / "step-1")
    sighting = seen(tmp_path, {"directory": "nowhere"}, {"directory": "ckpts"})
    assert [one.step for one in sighting.found] == [1]
    assert [one.source.place for one in sighting.unread] == ["nowhere"]


@pytest.mark.slow
@pytest.mark.parametrize("token", ["", "hub-token"])
def test_a_repository_s_revisions_are_known_by_their_commits(tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with hub(token) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        found = seen(tmp_path, {"repository": "org/tiny"}).found
        tagged = seen(tmp_path, {"repository": "org/tiny", "only": "step-*"}).found
        absent = seen(tmp_path, {"repository": "org/absent"}).unread
    assert [(one.digest, one.path, one.step) for one in found] == [
        ("c" * 40, "org/tiny@main", None),
        ("a" * 40, "org/tiny@step-100", 100),
    ]
    assert (found[0].spec, found[0].family) == ("vllm:org/tiny", "tiny")
    assert [one.step for one in tagged] == [100]
    assert "gave no list of its revisions" in absent[0].reason


@pytest.mark.slow
def test_an_endpoint_s_models_are_known_by_their_names(tmp_path: Path) -> None:
    with model_server(models=("tuned-step-10", "tuned-step-20", "other")) as server:
        source = {"endpoint": server.base_url, "only": "tuned-*", "family": "tuned"}
        first, again = seen(tmp_path, source).found, seen(tmp_path, source).found
        assert [(one.spec, one.step) for one in first] == [
            (f"openai:tuned-step-20@{server.base_url}", 20),
            (f"openai:tuned-step-10@{server.base_url}", 10),
        ]
    assert [one.digest for one in first] == [one.digest for one in again]
    assert "127.0.0.1" in seen(tmp_path, source).unread[0].reason


def test_a_checkpoint_keeps_its_first_name_and_time_wherever_it_goes(tmp_path: Path) -> None:
    home, here = Home(tmp_path / "home"), tmp_path / "ckpts" / "step-1"
    checkpoint(here)
    keep_checkpoints(home, seen(tmp_path, {"directory": "ckpts"}).found)
    [(digest, first)] = known_checkpoints(home).items()
    here.rename(tmp_path / "ckpts" / "renamed-step-2")
    keep_checkpoints(home, seen(tmp_path, {"directory": "ckpts"}).found)
    moved = known_checkpoints(home)[digest]
    assert isinstance(moved, Checkpoint)
    assert moved == first.model_copy(update={"path": str(tmp_path / "ckpts" / "renamed-step-2")})
    assert (first.model, first.family, first.step) == ("vllm:ckpts/step-1", "ckpts", 1)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, "names 0 places"),
        ({"directory": "a", "endpoint": "http://b"}, "names 2 places"),
        ({"repository": "tiny"}, "ORGANISATION/NAME"),
        ({"endpoint": "b:1"}, "begins with http"),
        ({"directory": "a", "ask": {"revision": "1"}}, "`ask` names revision"),
        ({"directory": "a", "ask": {"max_tokns": 1}}, "max_tokns"),
    ],
)
def test_a_source_that_says_too_little_or_too_much_is_refused(source: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        CheckpointSource.model_validate(source)

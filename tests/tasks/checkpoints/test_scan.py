"""All sources of a night: newest first, copies named; revisions of a repository, models of an
endpoint, and absent ones.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.lake.records import Checkpoint
from tasks.checkpoints.scan import Scan, known_checkpoints, record_checkpoints, scan_sources
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
    "/api/models/org/notes/refs": {"branches": [{"name": "main", "targetCommit": "e" * 40}]},
}
NOTES, CONFIG = (
    {"rfilename": "README.md", "blobId": "1"},
    {"rfilename": "config.json", "blobId": "2"},
)


def add_commit(repository: str, commit: str, day: int, *files: dict[str, Any]) -> None:
    HUB[f"/api/models/{repository}/commits/{commit}"] = [
        {"id": commit, "date": f"2026-11-0{day}T00:00:00.000Z"}
    ]
    HUB[f"/api/models/{repository}/revision/{commit}"] = {"siblings": [*files]}


def weights_of(sha256: str) -> dict[str, Any]:
    return {"rfilename": "model.safetensors", "blobId": "pointer", "lfs": {"sha256": sha256}}


add_commit("org/tiny", "a" * 40, 1, NOTES, weights_of("first"), CONFIG)
add_commit("org/tiny", "c" * 40, 2, NOTES, weights_of("second"), CONFIG)
add_commit("org/notes", "e" * 40, 1, NOTES)


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


def seen(tmp_path: Path, *sources: dict[str, Any]) -> Scan:
    given = [CheckpointSource.model_validate(source) for source in sources]
    return scan_sources(Home(tmp_path / "home"), given, tmp_path, LONG_AGO_S + 600 * MINUTE_S)


def test_newest_first_and_of_copies_the_oldest_counts(tmp_path: Path) -> None:
    for number, weights in ((1, b"same"), (2, b"diff"), (3, b"same")):
        checkpoint(
            tmp_path / "ckpts" / f"step-{number}",
            weights=weights,
            changed_s=LONG_AGO_S + number * MINUTE_S,
        )
    found = seen(tmp_path, {"directory": "ckpts"}).checkpoints
    assert [(one.step, one.is_due) for one in found] == [(3, False), (2, True), (1, True)]
    assert found[0].copy_of == found[2].path


def test_a_source_that_cannot_be_read_keeps_no_other_back(tmp_path: Path) -> None:
    checkpoint(tmp_path / "ckpts" / "step-1")
    scan = seen(tmp_path, {"directory": "nowhere"}, {"directory": "ckpts"})
    assert [one.step for one in scan.checkpoints] == [1]
    assert [one.source.place for one in scan.unread] == ["nowhere"]


@pytest.mark.slow
@pytest.mark.parametrize("token", ["", "hub-token"])
def test_a_repository_s_revisions_are_known_by_their_commits(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with hub(token) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        found = seen(tmp_path, {"repository": "org/tiny"}).checkpoints
        tagged = seen(tmp_path, {"repository": "org/tiny", "only": "step-*"}).checkpoints
        absent = seen(tmp_path, {"repository": "org/absent"}).unread
    assert [(one.digest, one.path, one.step) for one in found] == [
        ("c" * 40, "org/tiny@main", None),
        ("a" * 40, "org/tiny@step-100", 100),
    ]
    assert (found[0].spec, found[0].family) == ("vllm:org/tiny", "tiny")
    assert [one.step for one in tagged] == [100]
    assert "returned no list of revisions" in absent[0].reason


@pytest.mark.slow
def test_a_commit_that_changes_no_weights_is_the_model_that_a_night_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "")
    with hub() as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        source = {"repository": "org/tiny", "only": "main"}
        [taken] = seen(tmp_path, source).checkpoints
        record_checkpoints(Home(tmp_path / "home"), [taken])
        for commit, sha256 in (("d" * 40, "second"), ("f" * 40, "third")):
            add_commit(
                "org/tiny",
                commit,
                3,
                {**NOTES, "blobId": commit},
                weights_of(sha256),
                CONFIG,
            )
            moved = {
                **HUB["/api/models/org/tiny/refs"],
                "branches": [{"name": "main", "targetCommit": commit}],
            }
            monkeypatch.setitem(HUB, "/api/models/org/tiny/refs", moved)
            [found] = seen(tmp_path, source).checkpoints
            assert found.digest == (taken.digest if sha256 == "second" else commit)
        bare = seen(tmp_path, {"repository": "org/notes"}).checkpoints
    assert [(one.lacks, one.is_due) for one in bare] == [("no weights file exists yet", False)]


def test_what_two_sources_hold_is_the_first_one_s(tmp_path: Path) -> None:
    checkpoint(tmp_path / "ckpts" / "step-1")
    found = seen(tmp_path, {"directory": "ckpts", "family": "mine"}, {"directory": "."}).checkpoints
    assert [(one.family, one.is_due) for one in found] == [("mine", True)]


@pytest.mark.slow
def test_an_endpoint_s_models_are_known_by_their_names(tmp_path: Path) -> None:
    with model_server(models=("tuned-step-10", "tuned-step-20", "other")) as server:
        source = {"endpoint": server.base_url, "only": "tuned-*", "family": "tuned"}
        first, again = seen(tmp_path, source).checkpoints, seen(tmp_path, source).checkpoints
        assert [(one.spec, one.step) for one in first] == [
            (f"openai:tuned-step-20@{server.base_url}", 20),
            (f"openai:tuned-step-10@{server.base_url}", 10),
        ]
    assert [one.digest for one in first] == [one.digest for one in again]
    assert "127.0.0.1" in seen(tmp_path, source).unread[0].reason


def test_a_checkpoint_keeps_its_first_name_and_time_wherever_it_goes(tmp_path: Path) -> None:
    home, here = Home(tmp_path / "home"), tmp_path / "ckpts" / "step-1"
    checkpoint(here)
    record_checkpoints(home, seen(tmp_path, {"directory": "ckpts"}).checkpoints)
    [(digest, first)] = known_checkpoints(home).items()
    here.rename(tmp_path / "ckpts" / "renamed-step-2")
    record_checkpoints(home, seen(tmp_path, {"directory": "ckpts"}).checkpoints)
    moved = known_checkpoints(home)[digest]
    assert isinstance(moved, Checkpoint)
    assert moved == first.model_copy(update={"path": str(tmp_path / "ckpts" / "renamed-step-2")})
    assert (first.model, first.family, first.step) == ("vllm:ckpts/step-1", "ckpts", 1)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, "this one sets 0"),
        ({"directory": "a", "endpoint": "http://b"}, "this one sets 2"),
        ({"repository": "tiny"}, "ORGANISATION/NAME"),
        ({"endpoint": "b:1"}, "must begin with http"),
        ({"directory": "a", "ask": {"revision": "1"}}, "remove revision from `ask`"),
        ({"directory": "a", "ask": {"max_tokns": 1}}, "max_tokns"),
        (
            {"recordings": "a", "ask": {"gpus": 1}},
            "source 'a': `ask`: usd_per_hour and gpus are for models whose server",
        ),
        (
            {"endpoint": "http://b", "ask": {"serve": {}}},
            "only models that Parley serves with vLLM",
        ),
        (
            {"recordings": "a", "marker": "DONE"},
            "source 'a': `marker` applies only to directory; remove it",
        ),
        (
            {"repository": "a/b", "quiet_minutes": 5},
            "`quiet_minutes` applies only to directory and recordings",
        ),
    ],
)
def test_a_source_that_says_too_little_or_too_much_is_refused(
    source: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        CheckpointSource.model_validate(source)


@pytest.mark.parametrize("place", [{"directory": "a"}, {"repository": "a/b"}])
def test_a_source_says_how_vllm_serves_its_checkpoints_and_what_an_hour_costs(
    place: dict[str, Any],
) -> None:
    ask = {"serve": {"tensor_parallel": 2, "dtype": "bfloat16"}, "gpus": 2, "usd_per_hour": 3}
    asked = CheckpointSource.model_validate({**place, "ask": ask}).request(
        "vllm:x/y", None, "1", "mine"
    )
    assert asked.serve is not None
    assert (asked.serve.tensor_parallel, asked.gpus, asked.usd_per_hour) == (2, 2, 3)

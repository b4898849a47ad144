"""Requests in batches: together, answered in any order, asked again where a line is lost, and never
paid twice.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from schemas.errors import ModelUnavailable
from schemas.run import ModelEndpoint
from tasks.language.access import ModelAccess
from tasks.language.chat_model import Completion
from tasks.language.endpoints.batch_files import BatchPolicy
from tasks.language.endpoints.batch_model import BatchModel
from tests.fixtures.batch_server import BatchServer, batch_server
from tests.fixtures.model_server import Reply, default_answer
from tests.own_files import ROOT
from tests.tasks.language.requests import MOCK, QUICK, ask

TEXTS = ("one", "two", "three")
SOON = BatchPolicy(quiet_s=0.1, poll_s=0.02, slowest_poll_s=0.1, most_faults=3)


def opened(server: BatchServer, folder: Path, key: str | None = None) -> BatchModel:
    endpoint = ModelEndpoint(base_url=server.base_url, key_env="SOME_KEY" if key else None)
    access = ModelAccess(MOCK, endpoint, policy=QUICK)
    return BatchModel(access, folder, batches=SOON, environ={"SOME_KEY": key} if key else {})


def answers(
    server: BatchServer, folder: Path, texts: Sequence[str] = TEXTS, key: str | None = None
) -> list[Completion | BaseException]:
    async def scenario() -> list[Completion | BaseException]:
        model = opened(server, folder, key)
        try:
            return await asyncio.gather(
                *(model.complete(ask(text)) for text in texts), return_exceptions=True
            )
        finally:
            await model.aclose()

    return asyncio.run(scenario())


def contents(found: Sequence[Completion | BaseException]) -> list[str]:
    return [one.content if isinstance(one, Completion) else str(one) for one in found]


def expected(texts: Sequence[str] = TEXTS) -> list[str]:
    return [default_answer([{"role": "user", "content": text}]) for text in texts]


def test_requests_go_together_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    with batch_server(key="sk-1") as server:
        assert contents(answers(server, tmp_path, key="sk-1")) == expected()
        assert (len(server.batches), sorted(server.paid), server.n_chats) == (1, sorted(TEXTS), 0)
    (kept,) = tmp_path.glob("*.json")
    assert "sk-1" not in kept.read_text()
    assert json.loads(kept.read_text())["n_completed"] == len(TEXTS)


def test_lines_that_expired_are_asked_again_and_no_others(tmp_path: Path) -> None:
    with batch_server(loses=lambda text, before: text == "two" and before < 2) as server:
        assert contents(answers(server, tmp_path)) == expected()
        assert sorted(server.lines) == sorted((*TEXTS, "two", "two"))
        assert sorted(server.paid) == sorted(TEXTS)


def test_an_expired_batch_is_asked_again(tmp_path: Path) -> None:
    with batch_server(expires=True) as server:
        assert contents(answers(server, tmp_path)) == expected()
        assert [batch["status"] for batch in server.batches.values()] == ["expired", "completed"]


def test_a_line_that_is_lost_for_ever_is_infra_and_the_others_are_answered(tmp_path: Path) -> None:
    with batch_server(loses=lambda text, _before: text == "two") as server:
        first, lost, third = answers(server, tmp_path)
        assert contents((first, third)) == expected(("one", "three"))
        assert isinstance(lost, ModelUnavailable)
        assert not lost.permanent
        assert server.lines.count("two") == QUICK.max_tries


def test_a_refused_line_is_read_as_any_refusal(tmp_path: Path) -> None:
    def refuse(body: dict[str, object]) -> Reply | None:
        return (
            Reply(400, message="Unsupported parameter: 'seed'", code="unsupported_parameter")
            if "seed" in body
            else None
        )

    with batch_server(refuse=refuse) as server:
        found = answers(server, tmp_path)
        assert contents(found) == expected()
        assert {one.adapted for one in found if isinstance(one, Completion)} == {("without seed",)}


def test_a_batch_whose_making_broke_off_is_found_by_its_name(tmp_path: Path) -> None:
    with batch_server(breaks_off=True) as server:
        assert contents(answers(server, tmp_path)) == expected()
        assert len(server.batches) == 1


ASKING = """
import asyncio, sys
from pathlib import Path
from tests.tasks.language.endpoints.test_batch_model import TEXTS, opened
from tests.tasks.language.requests import ask

class Place:
    base_url = sys.argv[1]

async def main():
    model = opened(Place, Path(sys.argv[2]))
    await asyncio.gather(*(model.complete(ask(text)) for text in TEXTS))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_named", [True, False], ids=["after its id was kept", "before"])
def test_a_killed_process_pays_nothing_twice(tmp_path: Path, is_named: bool) -> None:
    with batch_server(holds_from=0) as server:
        asking = subprocess.Popen(
            [sys.executable, "-c", ASKING, server.base_url, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            deadline_s = time.monotonic() + 120
            while not any(
                json.loads(path.read_text())["batch_id"] for path in tmp_path.glob("[!.]*.json")
            ):
                assert time.monotonic() < deadline_s
                assert asking.poll() is None
                time.sleep(0.05)
        finally:
            asking.send_signal(signal.SIGKILL)
            asking.wait()
        (kept,) = tmp_path.glob("*.json")
        if not is_named:
            kept.write_text(
                json.dumps(json.loads(kept.read_text()) | {"batch_id": "", "status": "intended"})
            )
        server.holds_from = None
        assert contents(answers(server, tmp_path, (*TEXTS, "four"))) == expected((*TEXTS, "four"))
        assert sorted(server.paid) == sorted((*TEXTS, "four"))
        assert [len(server._rows(batch)) for batch in server.batches.values()] == [3, 1]
        assert contents(answers(server, tmp_path, TEXTS)) == expected()
        assert len(server.paid) == 4


def test_a_batch_that_is_gone_from_the_endpoint_is_made_again(tmp_path: Path) -> None:
    with batch_server() as server:
        answers(server, tmp_path)
        (kept,) = tmp_path.glob("*.json")
        kept.write_text(
            json.dumps(json.loads(kept.read_text()) | {"batch_id": "batch_9", "ended_at": 0.0})
        )
        assert contents(answers(server, tmp_path)) == expected()
        assert len(server.batches) == 2


def test_an_endpoint_without_batches_says_so(tmp_path: Path) -> None:
    with batch_server(key="sk-1") as server:
        (refused,) = answers(server, tmp_path, ("one",), key="sk-2")
        assert isinstance(refused, ModelUnavailable)
        assert refused.permanent
        assert "sk-2" not in str(refused)

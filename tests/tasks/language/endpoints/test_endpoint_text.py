"""What endpoints say, and our keys, in error messages and logs: no terminal commands, no keys."""

import asyncio
import logging
import pickle

import pytest
from openai import AsyncOpenAI

from schemas.errors import ModelUnavailable
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.tasks.language.requests import QUICK, ask, complete, model_on, refused

SENTINEL = "sk-SENTINEL-3f9a77"
HOSTILE = "no\x1b]0;EVIL\x07 \x1b[2Jway\u202e \x9b31m\r\nFAKE LINE"


@pytest.mark.parametrize(
    "reply",
    [Reply(status=400, message=HOSTILE), Reply(status=503, message=HOSTILE), Reply(model=HOSTILE)],
    ids=["refused", "busy", "served"],
)
def test_an_endpoint_s_text_commands_no_terminal(reply: Reply) -> None:
    error, _ = refused([reply] * QUICK.max_tries)
    assert "EVIL" in str(error)
    assert "FAKE LINE" in str(error)
    assert str(error).isprintable()


@pytest.mark.slow
def test_no_part_of_a_key_is_shown_where_a_message_is_cut_or_cleaned() -> None:
    """The server appends the key: once at the place where the line is cut, once behind characters
    that cleaning removes.
    """
    split = SENTINEL[:9] + "\x1b" + SENTINEL[9:]
    for n_before in range(250, 300, 5):
        with model_server(
            [Reply(status=400, message="x" * n_before), Reply(status=400, message=split)]
        ) as server:
            for _ in range(2):
                with pytest.raises(ModelUnavailable) as caught:
                    complete(server, key=SENTINEL)
                assert SENTINEL[:6] not in str(caught.value)


def test_openai_s_account_variables_go_to_no_other_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "OPENAI_API_KEY": SENTINEL,
        "OPENAI_ORG_ID": "org-SENTINEL",
        "OPENAI_PROJECT_ID": "proj-SENTINEL",
        "OPENAI_ADMIN_KEY": "admin-SENTINEL",
        "OPENAI_CUSTOM_HEADERS": "X-Secret: SENTINEL",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)
    with model_server() as server:
        complete(server)
        assert "SENTINEL" not in str(server.headers)
        assert server.headers[0]["authorization"] == "Bearer none"


@pytest.mark.parametrize("key", [None, SENTINEL])
def test_authorization_is_that_of_the_sdk(key: str | None) -> None:
    with model_server(key=key) as server:
        complete(server, key=key)
        theirs = AsyncOpenAI(base_url=server.base_url, api_key=key or "none").auth_headers
        sent = server.headers[0]
        assert {name: sent[name.lower()] for name in theirs} == theirs


def test_the_key_is_sent_and_shows_up_nowhere_else(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []

    async def scenario(server: ModelServer) -> None:
        model = model_on(server, key=SENTINEL)
        await model.complete(ask())
        four = (Reply(status=500), Reply(model=SENTINEL), Reply(fault="reset"))
        server.script += [
            Reply(status=401),
            *(reply for reply in four for _ in range(QUICK.max_tries)),
        ]
        for _ in range(4):
            with pytest.raises(ModelUnavailable) as caught:
                await model.complete(ask())
            error = caught.value
            assert error.__cause__ is None
            assert error.__context__ is None
            shown.extend(
                (str(error), repr(error), str(vars(error)), pickle.dumps(error).decode("latin-1"))
            )
        shown.extend((repr(model), repr(model.pool()), repr(model.pool().session)))
        with pytest.raises(TypeError, match="contains a key") as refusal:
            pickle.dumps(model)
        shown.append(str(refusal.value))
        await model.aclose()

    with model_server(key=SENTINEL) as server:
        asyncio.run(scenario(server))
        assert all(headers["authorization"] == f"Bearer {SENTINEL}" for headers in server.headers)
    assert any("[key]" in text for text in shown), (
        "the server echoes the key, so redaction must have happened"
    )
    assert len(caplog.records) > 0
    everything = "\n".join(
        (
            *shown,
            caplog.text,
            *map(str, (record.args for record in caplog.records)),
            *capsys.readouterr(),
        )
    )
    assert SENTINEL not in everything

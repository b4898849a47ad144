"""Bodies without an end, and endpoints whose certificates no known authority vouches for."""

import asyncio
import resource
import shutil
from pathlib import Path

import pytest

from schemas.errors import ConfigError, ModelUnavailable
from schemas.run import ModelEndpoint
from tasks.language.access import ModelAccess
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.opening import listed_models
from tests.fixtures.certificates import self_signed
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.fixtures.replies import Fault
from tests.tasks.language.requests import MOCK, QUICK, ask, complete, refused

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificates, is missing"
)


@pytest.mark.parametrize("fault", ["endless", "bomb"])
def test_a_body_is_read_up_to_its_bound(fault: Fault) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error, n_requests = refused([Reply(fault=fault)] * QUICK.max_tries)
    assert "larger than 64 MiB" in str(error)
    assert n_requests == QUICK.max_tries
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 400 << 10


def test_an_answer_after_a_body_beyond_the_bound_is_taken() -> None:
    with model_server([Reply(fault="bomb"), Reply(content="here")]) as server:
        assert complete(server).content == "here"
        assert len(server.bodies) == 2


async def _answer(server: ModelServer, ca_file: str | None) -> str:
    endpoint = ModelEndpoint(base_url=server.base_url, ca_file=ca_file)
    model = OpenAIModel(ModelAccess(MOCK, endpoint, policy=QUICK))
    try:
        return (await model.complete(ask())).content
    finally:
        await model.aclose()


@needs_openssl
def test_a_self_signed_certificate_is_trusted_by_its_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, certificate = self_signed(tmp_path)
    with model_server(tls=context) as server:
        assert "solve" in asyncio.run(_answer(server, str(certificate)))
        with pytest.raises(
            ModelUnavailable, match=r"certificate is not trusted .*--ca-file.*SSL_CERT_FILE"
        ) as caught:
            asyncio.run(_answer(server, None))
        assert caught.value.permanent
        with pytest.raises(ModelUnavailable, match="certificate is not trusted"):
            asyncio.run(listed_models(ModelEndpoint(base_url=server.base_url)))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert "solve" in asyncio.run(_answer(server, None))
        assert asyncio.run(listed_models(ModelEndpoint(base_url=server.base_url))) == ("mock",)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "authorities.pem"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with model_server() as server, pytest.raises(ConfigError, match=r"authorities\.pem.*PEM file"):
        asyncio.run(_answer(server, str(path)))

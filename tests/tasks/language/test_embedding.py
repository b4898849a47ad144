"""The client of `/v1/embeddings`: batches, order, retries, refusals; what it never says."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest

from schemas.errors import ModelUnavailable
from schemas.run import EmbedderIdentity, ModelEndpoint
from tasks.language.access import CallPolicy, ModelAccess
from tasks.language.embedding import TEXTS_A_REQUEST, EndpointEmbedder, check_embedder
from tests.fixtures.embedding_server import MODEL, EmbeddingServer, embedding_server, vector_of

IDENTITY = EmbedderIdentity(provider="openai", name=MODEL, revision="1")
QUICK = CallPolicy(concurrency=4, backoff_s=0.01, max_backoff_s=0.02, max_tries=3)


def embedded(server: EmbeddingServer, texts: Sequence[str], **environ: str) -> list[Any]:
    """What an embedder on this server brings for the texts."""

    async def ask() -> list[Any]:
        endpoint = ModelEndpoint(
            base_url=server.base_url, key_env="EMBEDDER_KEY" if environ else None
        )
        access = ModelAccess(IDENTITY, endpoint, policy=QUICK)
        embedder = EndpointEmbedder(IDENTITY, lambda: access, environ)
        try:
            return await embedder.embed(texts)
        finally:
            await embedder.aclose()

    return asyncio.run(ask())


def unit(text: str, dim: int = 4) -> list[float]:
    """The server's vector of the text, at length 1."""
    vector = vector_of(text, dim)
    return [number / math.hypot(*vector) for number in vector]


@pytest.mark.parametrize("in_base64", [True, False])
def test_vectors_come_in_the_order_of_the_texts_and_have_length_1(in_base64: bool) -> None:
    texts = [f"text {n}" for n in range(2 * TEXTS_A_REQUEST + 3)]
    with embedding_server(in_base64=in_base64) as server:
        vectors = embedded(server, texts)
    assert [v.tolist() for v in vectors] == [pytest.approx(unit(text), abs=1e-6) for text in texts]
    assert {str(v.dtype) for v in vectors} == {"float32"}
    assert sorted(len(request) for request in server.requests) == [
        3,
        TEXTS_A_REQUEST,
        TEXTS_A_REQUEST,
    ]


def test_long_texts_do_not_share_a_request() -> None:
    with embedding_server() as server:
        embedded(server, ["a" * 150_000, "b" * 150_000, "c"])
    assert sorted(len(request) for request in server.requests) == [1, 2]


def test_a_busy_endpoint_is_asked_again() -> None:
    with embedding_server(script=[(429, {"m": "busy"}), (503, {"m": "down"})]) as server:
        assert len(embedded(server, ["a"])) == 1
    assert server.texts == {"a": 1}


def test_a_text_that_is_too_long_has_no_vector_and_the_others_have_theirs() -> None:
    texts = ["short", "x" * 50, "also", "y" * 60, "end"]
    with embedding_server(longest=20) as server:
        vectors = embedded(server, texts)
    assert [vector is None for vector in vectors] == [False, True, False, True, False]
    assert vectors[4].tolist() == pytest.approx(unit("end"), abs=1e-6)
    assert max(server.texts.values()) == 1


def drop_one(body: dict[str, Any]) -> None:
    body["data"].pop()


def shorten_one(body: dict[str, Any]) -> None:
    body["data"][0]["embedding"] = [1.0]


def empty_one(body: dict[str, Any]) -> None:
    body["data"][0]["embedding"] = [0.0] * 4


def no_number(body: dict[str, Any]) -> None:
    body["data"][0]["embedding"] = [float("nan")] * 4


def no_data(body: dict[str, Any]) -> None:
    del body["data"]


@pytest.mark.parametrize("alter", [drop_one, shorten_one, empty_one, no_number, no_data])
def test_an_answer_that_is_not_one_vector_a_text_is_no_answer(alter: Any) -> None:
    with embedding_server(alter=alter) as server:
        with pytest.raises(ModelUnavailable, match="3 tries"):
            embedded(server, ["a", "b"])


def test_another_model_than_the_one_asked_for_is_refused() -> None:
    with (
        embedding_server(served="smaller-one") as server,
        pytest.raises(ModelUnavailable, match="smaller-one"),
    ):
        embedded(server, ["a"])


def test_the_key_goes_out_and_never_comes_back() -> None:
    with embedding_server(key="sk-true") as server:
        assert len(embedded(server, ["a"], EMBEDDER_KEY="sk-true")) == 1
        with pytest.raises(ModelUnavailable) as caught:
            embedded(server, ["a"], EMBEDDER_KEY="sk-false")
    assert "sk-false" not in str(caught.value)
    assert "EMBEDDER_KEY" in str(caught.value)


def test_an_endpoint_is_checked_before_a_run() -> None:
    with embedding_server(key="sk-true") as server:
        access = ModelAccess(IDENTITY, ModelEndpoint(base_url=server.base_url, key_env="K"))
        asyncio.run(check_embedder(access, {"K": "sk-true"}))
        with pytest.raises(ModelUnavailable, match="The key was rejected"):
            asyncio.run(check_embedder(access, {"K": "sk-false"}))
    assert len(server.requests) == 1

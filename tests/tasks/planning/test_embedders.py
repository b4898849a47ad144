"""Which runs have an embedder: a setting that needs one, and no other."""

from dataclasses import replace

import pytest

from schemas.errors import ConfigError
from schemas.run import EmbedderIdentity, ModelIdentity, RunSpec
from tasks.benchmarks.contract import Setting
from tasks.planning.participants.choice import choose_embedder
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest, key_names
from tests.tasks.benchmarks.smallest import BENCHMARK

SMALLEST = replace(
    BENCHMARK,
    settings={
        "reads": Setting(name="reads", help="", needs_embedder=True),
        "asks": Setting(name="asks", help="", embedder_in_play=True),
        "plain": Setting(name="plain", help=""),
    },
)
URL = "openai:m@http://127.0.0.1:9/v1"


def request(embedder: ModelRequest | None) -> EvaluationRequest:
    return EvaluationRequest(
        model=ModelRequest(spec="control:gold"),
        benchmark=BenchmarkRequest(name="some.setting"),
        embedder=embedder,
    )


@pytest.mark.parametrize("setting", ["reads", "asks"])
def test_a_setting_that_needs_one_is_refused_without(setting: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"smallest\.{setting} compares texts .* --embedder .*embedded:minilm"
    ):
        choose_embedder(request(None), SMALLEST, setting, None)
    chosen = choose_embedder(request(ModelRequest(spec=URL, revision="1")), SMALLEST, setting, None)
    assert chosen is not None
    assert (chosen.identity.label, chosen.identity.revision) == ("openai:m", "1")


def test_a_setting_that_needs_none_has_none_in_a_night() -> None:
    assert choose_embedder(request(ModelRequest(spec=URL)), SMALLEST, "plain", None) is None


def test_a_resumed_run_keeps_the_day_that_its_unpinned_embedder_was_named_by() -> None:
    earlier = EmbedderIdentity(provider="openai", name="m", revision="unpinned-2026-11-01")
    subject = ModelIdentity(provider="control", name="gold")
    spec = RunSpec(
        benchmark="some",
        benchmark_version="1",
        setting="setting",
        dataset_version="sample",
        dataset_digest="0",
        subject=subject,
        embedder=earlier,
    )
    chosen = choose_embedder(request(ModelRequest(spec=URL)), SMALLEST, "reads", spec)
    assert chosen is not None
    assert chosen.identity == earlier


def test_its_key_is_named_like_a_models_and_never_stands_in_its_url() -> None:
    assert key_names([request(ModelRequest(spec=URL, key_env="EMBEDDER_KEY"))]) == ("EMBEDDER_KEY",)
    with pytest.raises(ConfigError, match="a user or key in its URL"):
        request(ModelRequest(spec="openai:m@http://me:key@127.0.0.1/v1"))

"""Each id changes with each of its ingredients, and with nothing else (docs/explanation/ids.md)."""

from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.problem import SuiteKind
from schemas.run import (
    AgentIdentity,
    EmbedderIdentity,
    Limits,
    ModelEndpoint,
    ModelIdentity,
    RunSpec,
    Sampling,
    judgement_id,
)
from schemas.verdict import verdict_id
from tests.schemas.strategies import TEXT, Path, changed, leaves, models

few = settings(
    max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def under(name: str, model: type[BaseModel]) -> set[Path]:
    return {(name, *path) for path in leaves(model)}


EPISODE = {
    ("benchmark",),
    ("benchmark_version",),
    ("setting",),
    ("dataset_version",),
    ("episode_options",),
    *under("subject", ModelIdentity),
    *under("simulator", ModelIdentity),
    *under("sampling", Sampling),
    ("prompts",),
    ("seed",),
    *under("agent", AgentIdentity),
    *under("embedder_in_play", EmbedderIdentity),
    *under("simulator_sampling", Sampling),
}
"""Fields of a RunSpec that can change what is said."""
RUN_ONLY = {
    ("dataset_digest",),
    ("scoring_options",),
    *under("judge", ModelIdentity),
    *under("embedder", EmbedderIdentity),
    ("samples",),
    ("sandbox",),
    *under("limits", Limits),
    ("runner_version",),
    ("judges",),
    ("audit",),
    ("refused",),
    ("templates",),
}
"""Fields that make another run of the same episodes."""

paths = pytest.mark.parametrize("path", sorted(leaves(RunSpec)), ids=".".join)


def test_every_field_of_a_run_is_on_one_side():
    assert set(leaves(RunSpec)) == EPISODE | RUN_ONLY
    assert not EPISODE & RUN_ONLY


def test_addresses_keys_and_sizes_are_no_part_of_a_run():
    names = {name for path in leaves(RunSpec) for name in path}
    assert not names & (
        set(ModelEndpoint.model_fields)
        | {"limit", "concurrency", "shard_size", "url", "port", "api_key", "resume"}
    )
    assert ModelEndpoint not in _models_inside(RunSpec)


def _models_inside(model: type[BaseModel]) -> set[type]:
    kinds = {
        a
        for f in model.model_fields.values()
        for a in (get_args(f.annotation) or (f.annotation,))
        if isinstance(a, type)
    }
    inner = {kind for kind in kinds if issubclass(kind, BaseModel)}
    return inner.union(*(_models_inside(kind) for kind in inner))


@pytest.mark.slow
@paths
@few
@given(data=st.data(), spec=models(RunSpec), row=TEXT, sample=st.integers(0, 9))
def test_each_field_changes_the_run_and_only_what_is_said_changes_the_episode(
    path: Path, data: st.DataObject, spec: RunSpec, row: str, sample: int
):
    if len(path) == 2 and getattr(spec, path[0]) is None:
        spec = spec.model_copy(update={path[0]: data.draw(models(_kind(path[0])))})
    other = data.draw(changed(RunSpec, spec, path))
    assert other != spec
    assert other.run_id != spec.run_id
    assert (other.episode_id(row, sample) != spec.episode_id(row, sample)) == (path in EPISODE)


def _kind(name: str) -> type[BaseModel]:
    if name.startswith("embedder"):
        return EmbedderIdentity
    if name == "simulator_sampling":
        return Sampling
    return AgentIdentity if name == "agent" else ModelIdentity


@pytest.mark.parametrize(
    ("name", "in_episode"),
    [("simulator", True), ("judge", False), ("embedder", False), ("embedder_in_play", True)],
)
@few
@given(data=st.data(), spec=models(RunSpec))
def test_having_none_of_a_model_is_another_run(
    name: str, in_episode: bool, data: st.DataObject, spec: RunSpec
):
    with_it, without = (
        spec.model_copy(update={name: data.draw(models(_kind(name)))}),
        spec.model_copy(update={name: None}),
    )
    assert with_it.run_id != without.run_id
    assert (with_it.episode_id("row", 0) != without.episode_id("row", 0)) == in_episode


@pytest.mark.slow
@given(
    spec=models(RunSpec),
    rows=st.tuples(TEXT, TEXT),
    samples=st.tuples(st.integers(0, 99), st.integers(0, 99)),
)
def test_rows_and_samples_are_told_apart(
    spec: RunSpec, rows: tuple[str, str], samples: tuple[int, int]
):
    ids = [spec.episode_id(row, sample) for row, sample in zip(rows, samples, strict=True)]
    assert (ids[0] == ids[1]) == ((rows[0], samples[0]) == (rows[1], samples[1]))


@pytest.mark.slow
@given(spec=models(RunSpec), sample=st.integers(0, 99), shift=st.integers(1, 99))
def test_a_shifted_seed_does_not_stand_in_for_another_sample(
    spec: RunSpec, sample: int, shift: int
):
    shifted = spec.model_copy(update={"seed": spec.seed - shift})
    assert (
        shifted.episode_ingredients("row", sample + shift)["seed"]
        == spec.episode_ingredients("row", sample)["seed"]
    )
    assert shifted.episode_id("row", sample + shift) != spec.episode_id("row", sample)


@pytest.mark.slow
@given(a=models(RunSpec), b=models(RunSpec))
def test_two_runs_have_one_id_exactly_where_they_are_equal(a: RunSpec, b: RunSpec):
    assert (a.run_id == b.run_id) == (a == b)
    assert a.run_id == RunSpec.model_validate_json(a.model_dump_json()).run_id


def verdict_parts(**changes: Any) -> dict[str, Any]:
    return {
        "code": "x = 1",
        "tests": ("assert x",),
        "runner_version": 1,
        "environment": "e",
        "limits": Limits(),
    } | changes


@pytest.mark.parametrize("path", sorted(leaves(Limits)), ids=".".join)
@few
@given(data=st.data(), limits=models(Limits))
def test_each_limit_changes_a_verdict(path: Path, data: st.DataObject, limits: Limits):
    other = data.draw(changed(Limits, limits, path))
    assert verdict_id(**verdict_parts(limits=other)) != verdict_id(**verdict_parts(limits=limits))


TESTS = st.lists(TEXT, max_size=3).map(tuple)
PARTS = st.fixed_dictionaries(
    {
        "code": TEXT,
        "tests": TESTS,
        "runner_version": st.integers(1, 9),
        "environment": TEXT,
        "limits": models(Limits),
        "kind": st.sampled_from(get_args(SuiteKind)),
    }
)


@pytest.mark.slow
@given(data=st.data(), parts=PARTS)
@pytest.mark.parametrize(
    "name", ["code", "tests", "runner_version", "environment", "limits", "kind"]
)
def test_each_ingredient_changes_a_verdict(name: str, data: st.DataObject, parts: dict[str, Any]):
    other = parts | {
        name: data.draw(PARTS.map(lambda p: p[name]).filter(lambda v: v != parts[name]))
    }
    assert verdict_id(**other) != verdict_id(**parts)


def test_a_verdict_is_by_tests_in_their_order_and_not_by_their_text_joined():
    ids = {
        verdict_id(**verdict_parts(tests=tests))
        for tests in (("a", "b"), ("b", "a"), ("ab",), ("a\nb",), ("a", "b", ""))
    }
    assert len(ids) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "model", "path"),
    [
        *((("judge", ModelIdentity, path)) for path in sorted(leaves(ModelIdentity))),
        *((("sampling", Sampling, path)) for path in sorted(leaves(Sampling))),
    ],
)
@few
@given(data=st.data())
def test_each_ingredient_changes_a_judgement(
    part: str, model: type[BaseModel], path: Path, data: st.DataObject
):
    parts = {
        "prompt": data.draw(TEXT),
        "judge": data.draw(models(ModelIdentity)),
        "sampling": data.draw(models(Sampling)),
    }
    other = parts | {part: data.draw(changed(model, parts[part], path))}
    assert judgement_id(**other) != judgement_id(**parts)


@given(prompts=st.tuples(TEXT, TEXT), judge=models(ModelIdentity))
def test_the_prompt_changes_a_judgement(prompts: tuple[str, str], judge: ModelIdentity):
    a, b = (judgement_id(prompt=prompt, judge=judge, sampling=Sampling()) for prompt in prompts)
    assert (a == b) == (prompts[0] == prompts[1])


@few
@given(spec=models(RunSpec), digests=st.lists(TEXT, max_size=3), sample=st.integers(0, 9))
def test_ids_of_many_episodes_are_those_of_each(
    spec: RunSpec, digests: list[str], sample: int
) -> None:
    assert list(spec.episode_ids(digests, sample)) == [
        spec.episode_id(digest, sample) for digest in digests
    ]

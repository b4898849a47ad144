import pytest

from schemas.errors import UsageError
from schemas.run import Limits, ModelIdentity, Provider, RunSpec, Sampling
from tasks.planning.why_rerun import differences, refuse_other_run

SPEC = RunSpec(
    benchmark="b",
    benchmark_version="1",
    setting="s",
    dataset_version="v",
    dataset_digest="d",
    episode_options=(("history", "on_policy"),),
    scoring_options=(("cleanup", "none"),),
    subject=ModelIdentity(provider=Provider.OPENAI, name="m", revision="1"),
    prompts=(("ask", "p1"),),
)


def changed(**update: object) -> RunSpec:
    return SPEC.model_copy(update=update)


@pytest.mark.parametrize(
    ("other", "field", "reruns"),
    [
        (changed(subject=SPEC.subject.model_copy(update={"revision": "2"})), "subject.revision", "dialogues"),
        (changed(sampling=Sampling(temperature=1)), "sampling.temperature", "dialogues"),
        (changed(prompts=(("ask", "p2"),)), "prompts.ask", "dialogues"),
        (changed(episode_options=(("history", "reference"),)), "episode_options.history", "dialogues"),
        (changed(scoring_options=(("cleanup", "upstream"),)), "scoring_options.cleanup", "scoring"),
        (changed(limits=Limits(cpu_s=9)), "limits.cpu_s", "scoring"),
        (changed(sandbox="none"), "sandbox", "scoring"),
        (changed(judge=SPEC.subject), "judge", "scoring"),
    ],
)
def test_the_field_that_changed_is_named_and_nothing_else(other: RunSpec, field: str, reruns: str) -> None:
    found = differences(SPEC, other)
    assert [(d.field, d.reruns) for d in found] == [(field, reruns)]
    episodes_differ = SPEC.episode_id("row", 0) != other.episode_id("row", 0)
    assert episodes_differ == (reruns == "dialogues")


def test_equal_specs_have_no_differences() -> None:
    assert differences(SPEC, SPEC.model_copy()) == ()


def test_resuming_another_run_is_refused_with_the_field() -> None:
    refuse_other_run(SPEC, SPEC)
    with pytest.raises(UsageError, match=r"sampling\.temperature: '0' there, '1' asked"):
        refuse_other_run(SPEC, changed(sampling=Sampling(temperature=1)))

"""Each ingredient of the ids is changed once: it is named, alone, and said to make anew what
the id functions say.
"""

from pathlib import Path as File
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.content_id import canonical_json
from schemas.dialog import Dialog, Role, Turn
from schemas.errors import UsageError
from schemas.lake.records import RunRecord
from schemas.lake.rows import from_arrow
from schemas.night.work import Difference, Layer
from schemas.run import (
    AgentIdentity,
    EmbedderIdentity,
    Limits,
    ModelIdentity,
    RubricJudge,
    RunSpec,
    Sampling,
)
from tasks.planning.why_rerun import (
    ROWS_NAMED,
    compare,
    differences,
    layer_ids,
    refuse_other_run,
    rerun_reasons,
    rows_of,
)
from tasks.storage.parquet_store import Lake
from tests.schemas.strategies import Path, changed, leaves

MODEL = ModelIdentity(provider="openai", name="m", revision="1")
EMBEDDER = EmbedderIdentity(provider="openai", name="e", max_length=9)
JUDGE = RubricJudge(rubric="clear", version="1", prompt="p", judge=MODEL)
SPEC = RunSpec(
    benchmark="b",
    benchmark_version="1",
    setting="s",
    dataset_version="v",
    dataset_digest="d",
    episode_options=(("history", "on_policy"),),
    scoring_options=(("cleanup", "none"),),
    subject=MODEL,
    simulator=MODEL,
    judge=MODEL,
    simulator_sampling=Sampling(max_tokens=9),
    judges=(JUDGE,),
    embedder=EMBEDDER,
    embedder_in_play=EMBEDDER,
    prompts=(("ask", "p1"), ("persona/novice", "p2")),
    agent=AgentIdentity(
        name="notes", version="1", options=(("style", "loud"),), prompts=(("note", "p3"),)
    ),
)
OUTSIDE = {
    "environment": "bubblewrap 1; e1",
    "metrics.accuracy": "1",
    "metrics.forgetting": "1",
    "parley_version": "0.1.0",
}


def with_(**update: object) -> RunSpec:
    return SPEC.model_copy(update=update)


def judged(**update: object) -> RunSpec:
    return with_(judges=(JUDGE.model_copy(update=update),))


def subject(**update: object) -> RunSpec:
    return with_(subject=MODEL.model_copy(update=update))


EPISODE_ID = {
    "benchmark": with_(benchmark="c"),
    "benchmark_version": with_(benchmark_version="2"),
    "dataset_version": with_(dataset_version="w"),
    "dataset_digest": with_(dataset_digest="e"),
    "setting": with_(setting="t"),
    "episode_options.history": with_(episode_options=(("history", "reference"),)),
    "subject.provider": subject(provider="vllm"),
    "subject.name": subject(name="n"),
    "subject.revision": subject(revision="2"),
    "subject.weights_digest": subject(weights_digest="w"),
    "subject.chat_template": subject(chat_template="c"),
    "sampling.temperature": with_(sampling=Sampling(temperature=1)),
    "sampling.top_p": with_(sampling=Sampling(top_p=0.5)),
    "sampling.max_tokens": with_(sampling=Sampling(max_tokens=9)),
    "sampling.stop": with_(sampling=Sampling(stop=("x",))),
    "sampling.omit_reasoning": with_(sampling=Sampling(omit_reasoning=False)),
    "simulator.name": with_(simulator=MODEL.model_copy(update={"name": "n"})),
    "simulator": with_(simulator=None),
    "embedder_in_play.revision": with_(
        embedder_in_play=EMBEDDER.model_copy(update={"revision": "2"})
    ),
    "prompts.ask": with_(prompts=(("ask", "p9"), ("persona/novice", "p2"))),
    "prompts.persona/novice": with_(prompts=(("ask", "p1"), ("persona/novice", "p9"))),
    "prompts.more": with_(prompts=(*SPEC.prompts, ("more", "p3"))),
    "agent": with_(agent=None),
    "agent.version": with_(agent=SPEC.agent and SPEC.agent.model_copy(update={"version": "2"})),
    "agent.options.style": with_(
        agent=SPEC.agent and SPEC.agent.model_copy(update={"options": ()})
    ),
    "agent.prompts.note": with_(
        agent=SPEC.agent and SPEC.agent.model_copy(update={"prompts": (("note", "p9"),)})
    ),
    "samples": with_(samples=2),
    "seed": with_(seed=1),
}
"""Ingredient of `episode_id` -> a spec with another one. The row digest: see the tests of rows."""
VERDICT_ID = {
    "scoring_options.cleanup": with_(scoring_options=(("cleanup", "upstream"),)),
    "runner_version": with_(runner_version=2),
    "sandbox": with_(sandbox="none"),
    **{
        f"limits.{name}": with_(limits=SPEC.limits.model_copy(update={name: 7}))
        for name in Limits.model_fields
    },
}
JUDGEMENT_ID = {
    "judges.clear.judge.name": judged(judge=MODEL.model_copy(update={"name": "n"})),
    "judges.clear.judge.revision": judged(judge=MODEL.model_copy(update={"revision": "2"})),
    "judges.clear.judge.weights_digest": judged(
        judge=MODEL.model_copy(update={"weights_digest": "w"})
    ),
    "judges.clear.version": judged(version="2"),
    "judges.clear.prompt": judged(prompt="q"),
    "judges.clear.sampling.temperature": judged(sampling=Sampling(temperature=1)),
    "judges.tone": with_(judges=(JUDGE, JUDGE.model_copy(update={"rubric": "tone"}))),
}
BY_LAYER = {"dialogues": EPISODE_ID, "tests": VERDICT_ID, "judgements": JUDGEMENT_ID}
CASES = [
    (field, other, layer) for layer, fields in BY_LAYER.items() for field, other in fields.items()
]


@pytest.mark.parametrize(("field", "other", "layer"), CASES, ids=[case[0] for case in CASES])
def test_an_ingredient_of_the_spec_is_named_alone_with_what_it_makes_anew(
    field: str, other: RunSpec, layer: str
) -> None:
    assert [(d.field, d.reruns) for d in differences(SPEC, other)] == [(field, layer)]


@pytest.mark.parametrize(
    ("field", "layer"),
    [("environment", "tests"), ("metrics.forgetting", "scores"), ("parley_version", "nothing")],
)
def test_an_ingredient_outside_the_spec_is_named_alone_with_what_it_makes_anew(
    field: str, layer: Layer
) -> None:
    found = differences(SPEC, SPEC, (OUTSIDE, OUTSIDE | {field: "another"}))
    assert found == (Difference(field=field, before=OUTSIDE[field], after="another", reruns=layer),)


def test_fewer_samples_no_judge_or_another_audit_make_only_scores_anew() -> None:
    others = (
        (with_(samples=1), "samples"),
        (with_(samples=2, judges=()), "judges.clear"),
        (with_(samples=2, audit="all"), "audit"),
    )
    for fewer, field in others:
        assert [(d.field, d.reruns) for d in differences(with_(samples=2), fewer)] == [
            (field, "scores")
        ]


def test_equal_runs_have_no_differences() -> None:
    assert differences(SPEC, SPEC.model_copy(), (OUTSIDE, dict(OUTSIDE))) == ()


@pytest.mark.parametrize("path", sorted(set(leaves(RunSpec)) - {("samples",)}), ids=".".join)
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_every_field_of_a_spec_is_named_and_its_layer_is_that_of_the_ids(
    path: Path, data: st.DataObject
) -> None:
    other: Any = data.draw(changed(RunSpec, SPEC, path))
    found = differences(SPEC, other)
    assert found
    assert all(d.field.startswith(".".join(path)) for d in found)
    more = {
        layer for layer, ids in layer_ids(other, {}).items() if ids - layer_ids(SPEC, {})[layer]
    }
    assert {d.reruns for d in found} <= more
    assert ("dialogues" in more) == (found[0].reruns == "dialogues")


def lake_with(folder: File, rows: dict[str, str], digest: str) -> Lake:
    lake = Lake(folder)
    dialogs = [
        Dialog(
            benchmark="b",
            dataset_version="v",
            dialog_id=name,
            problem_id=name,
            turns=(Turn(turn=1, role=Role.USER, content="?"),),
            row_digest=row,
        )
        for name, row in rows.items()
    ]
    lake.write_part("dialogs", dialogs, digest, benchmark="b", dataset_version="v")
    return lake


def record(spec: RunSpec = SPEC, **update: Any) -> RunRecord:
    whole = RunRecord(
        run_id=spec.run_id,
        night_id="n",
        benchmark="b",
        model="openai:m",
        setting="b.s",
        dataset_version="v",
        spec_json=canonical_json(spec),
        sandbox="bubblewrap",
        isolated=True,
        samples=1,
        seed=0,
        status="finished",
        started_at="",
        finished_at="",
        n_episodes=2,
        n_owed=0,
        n_infra=0,
        n_unscored=0,
        n_truncated=0,
        model_calls=0,
        parley_version="0.1.0",
        state=tuple((name, value) for name, value in OUTSIDE.items() if name != "parley_version"),
    )
    return whole.model_copy(update=update)


def test_rows_that_changed_are_named_up_to_a_few_and_counted(tmp_path: File) -> None:
    before = {f"P{number}": "1" for number in range(9)} | {"gone": "1"}
    after = {name: "2" for name in before if name != "gone"} | {"new": "1"}
    lake_with(tmp_path, before, "d")
    lake = lake_with(tmp_path, after, "e")
    found = compare(lake, record(), with_(dataset_digest="e"), OUTSIDE)
    assert [(d.field, d.reruns) for d in found[:2]] == [
        ("dataset_digest", "dialogues"),
        ("rows", "dialogues"),
    ]
    assert found[1].after == "10 rows: 9 changed, 1 added, 1 removed"
    assert [d.field for d in found[2:]] == [f"rows.P{number}" for number in range(ROWS_NAMED)]
    assert found[2].before == "1"
    assert found[2].after == "2"


def test_a_dataset_that_only_lost_rows_plays_no_dialogue_again(tmp_path: File) -> None:
    lake_with(tmp_path, {"P1": "1", "P2": "1"}, "d")
    lake = lake_with(tmp_path, {"P1": "1"}, "e")
    found = compare(lake, record(), with_(dataset_digest="e"), OUTSIDE)
    assert {d.field: d.reruns for d in found} == {
        "dataset_digest": "scores",
        "rows": "nothing",
        "rows.P2": "nothing",
    }


def test_a_project_that_changed_plays_its_dialogues_again_and_other_packages_in_it_run_its_tests_again(
    tmp_path: File,
) -> None:
    lake_with(tmp_path, {"P1": "1", "P2": "1"}, "d")
    (edition,) = Lake(tmp_path).parts("dialogs", benchmark="b", dataset_version="v")
    one, two = from_arrow(Lake(tmp_path).read_arrow("dialogs", [edition]), Dialog)
    placed = one.with_tree("tree 1", "pytest 1"), two.with_tree("tree 1", "pytest 1")
    lake = Lake(tmp_path)
    for digest, first, second in (
        ("e", placed[0], placed[1]),
        ("f", placed[0].with_tree("tree 2", "pytest 1"), placed[1]),
        ("g", placed[0].with_tree("tree 1", "pytest 2"), placed[1]),
    ):
        lake.write_part("dialogs", [first, second], digest, benchmark="b", dataset_version="v")
    before = record(with_(dataset_digest="e"))
    moved = {d.field: d.reruns for d in compare(lake, before, with_(dataset_digest="f"), OUTSIDE)}
    assert moved == {"dataset_digest": "dialogues", "rows": "dialogues", "rows.P1": "dialogues"}
    other = {d.field: d.reruns for d in compare(lake, before, with_(dataset_digest="g"), OUTSIDE)}
    assert other == {"dataset_digest": "tests", "rows": "tests", "rows.P1": "tests"}


def test_an_edition_that_left_the_lake_is_told_by_its_digest_alone(tmp_path: File) -> None:
    lake = lake_with(tmp_path, {"P1": "1"}, "e")
    assert rows_of(lake, SPEC) is None
    assert [d.field for d in compare(lake, record(), with_(dataset_digest="e"), OUTSIDE)] == [
        "dataset_digest"
    ]


@pytest.mark.parametrize(
    ("field", "layer"),
    [
        ("files.episodes", "dialogues"),
        ("files.test_verdicts", "tests"),
        ("files.scores", "scores"),
        ("environment", "tests"),
        ("metrics.accuracy", "scores"),
        ("parley_version", "nothing"),
    ],
)
def test_what_makes_one_run_work_again_is_named(field: str, layer: str) -> None:
    state = OUTSIDE | {
        f"files.{table}": "1 files of 9 bytes (a)"
        for table in ("episodes", "test_verdicts", "scores")
    }
    before = record(
        state=tuple((name, value) for name, value in state.items() if name != "parley_version")
    )
    assert rerun_reasons(before, SPEC, state, 0) == ()
    assert [
        (d.field, d.reruns) for d in rerun_reasons(before, SPEC, state | {field: "another"}, 0)
    ] == [(field, layer)]


def test_a_run_that_did_not_end_or_grew_says_so() -> None:
    found = rerun_reasons(record(status="incomplete", n_owed=3), SPEC, OUTSIDE, 2)
    assert [(d.field, d.before, d.after) for d in found] == [
        ("status", "incomplete", "to be finished"),
        ("owed", "3", "2"),
    ]


def test_resuming_another_run_is_refused_with_the_field() -> None:
    refuse_other_run(SPEC, SPEC)
    with pytest.raises(UsageError, match=r"sampling\.temperature: '0' there, '1' requested"):
        refuse_other_run(SPEC, with_(sampling=Sampling(temperature=1)))

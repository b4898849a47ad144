"""Rows that the site reads: facts of a run, curves, links between dialogues and their groups."""

from pathlib import Path
from time import process_time

import pytest

from flows.site.writing import links_of, newest_of_each, settings_of
from schemas.content_id import canonical_json
from schemas.run import AgentIdentity, RubricJudge
from tests.flows.site.test_site import site as site
from tests.warehouse.small_lake import SmallLake
from warehouse.site_rows import SiteRows


def test_the_settings_of_a_run_are_named(tmp_path: Path) -> None:
    spec = SmallLake(tmp_path).alpha_1.spec
    judge = RubricJudge(rubric="r", version="1", prompt="p", judge=spec.subject)
    agent = AgentIdentity(name="a", version="2", options=(("k", "v"),))
    changed = spec.model_copy(
        update={"seed": 7, "episode_options": (("o", "x"),), "agent": agent, "judges": (judge,)}
    )
    settings = dict(settings_of({"spec_json": canonical_json(changed)}))
    assert settings["options of dialogues"] == "o=x"
    assert (settings["seed"], settings["agent"]) == ("7", "a 2 k=v")
    assert settings["judge"].startswith("r openai:alpha")
    assert "simulated user" not in settings


def test_curves_show_the_newest_of_runs_that_differ_in_the_revision_alone(tmp_path: Path) -> None:
    spec = SmallLake(tmp_path).alpha_1.spec
    subjects = [
        spec.subject.model_copy(update={"revision": night, "weights_digest": night})
        for night in ("n3", "n2", "n1")
    ]
    specs = [spec.model_copy(update={"subject": subject}) for subject in subjects]
    specs += [specs[2].model_copy(update={"seed": 1})]
    shared = {"model": "openai:alpha", "task_share": None}
    runs = [{**shared, "run_id": one.run_id, "spec_json": canonical_json(one)} for one in specs]
    assert newest_of_each(runs) == {specs[0].run_id, specs[3].run_id}
    runs.append({**runs[1], "run_id": "a part", "task_share": 0.1})
    assert newest_of_each(runs) == {specs[0].run_id, specs[3].run_id, "a part"}


def test_links_lead_to_the_nearest_failures_also_in_many_dialogues() -> None:
    ids = list("abcdef")
    found = [links_of(ids, [1, 3], at) for at in range(6)]
    assert [one["failure_before"] for one in found] == [None, None, "b", "b", "d", "d"]
    assert [one["failure_after"] for one in found] == ["b", "d", "d", None, None, None]
    assert (found[0]["before"], found[5]["after"], found[2]["after"]) == (None, None, "d")
    many = [str(at) for at in range(20_000)]
    began = process_time()
    for at in range(20_000):
        links_of(many, range(20_000), at)
    assert process_time() - began < 3


def test_dialogues_are_read_in_groups_by_their_steps(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = SmallLake(site.parent / "home").alpha_2.run_id
    with SiteRows(site.parent / "home") as rows:
        ids = [row["episode_id"] for row in rows.episodes(run_id)]
        whole = list(rows.parts_of(run_id, ids))
        monkeypatch.setattr("warehouse.site_rows.STEPS_AT_ONCE", 6)
        batches = list(rows._batches(run_id, ids))
        assert [one for batch in batches for one in batch] == ids
        sizes = {one: len(parts["steps"]) for one, parts in whole}
        assert max(sum(sizes[one] for one in batch) for batch in batches) == 6
        assert 1 < len(batches) < len(ids)
        assert list(rows.parts_of(run_id, ids)) == whole

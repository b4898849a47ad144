"""Wanted episodes as a table: sample by sample within each dialog, and without the finished
ones.
"""

import pyarrow as pa

from schemas.run import ModelIdentity, RunSpec
from tasks.storage.run_rows import WantedEpisode, wanted_episodes

SPEC = RunSpec(
    benchmark="b",
    benchmark_version="1",
    setting="s",
    dataset_version="v",
    dataset_digest="d",
    subject=ModelIdentity(provider="control", name="gold"),
    sandbox="zygote",
    samples=3,
    seed=5,
)
DIALOGS = pa.table(
    {
        "digest": ["x", "y"],
        "row_digest": ["rx", "ry"],
        "problem_id": ["p", "q"],
        "dialog_id": ["dx", "dy"],
    },
)


def test_each_dialog_has_its_samples_in_order() -> None:
    wanted = wanted_episodes(SPEC, DIALOGS)
    assert list(wanted) == [
        WantedEpisode(
            SPEC.episode_id(digest, sample),
            f"r{digest}",
            problem,
            f"d{digest}",
            at,
            sample,
            5 + sample,
        )
        for at, (digest, problem) in enumerate([("x", "p"), ("y", "q")])
        for sample in range(3)
    ]
    assert (wanted[4], wanted.problem_ids) == (list(wanted)[4], ["p", "q"])
    assert list(wanted.take([5, 0])) == [wanted[5], wanted[0]]


def test_pending_episodes_are_those_that_nothing_finished() -> None:
    wanted = wanted_episodes(SPEC, DIALOGS)
    finished = wanted[1:3].ids
    assert list(wanted.without(finished)) == [wanted[0], *wanted[3:]]
    assert list(wanted.among(finished)) == list(wanted[1:3])
    assert wanted.without(wanted.ids[:0]) is wanted
    assert len(wanted.without(wanted.ids)) == 0
    assert list(wanted.of_problems({"q"})) == list(wanted[3:])

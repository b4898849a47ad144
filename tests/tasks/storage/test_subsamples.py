"""Choices of subsamples: the first one of a run stays, torn lines are skipped."""

from pathlib import Path

from tasks.storage.home_records import StoredShare, StoredShares


def test_a_run_keeps_its_first_share_and_a_night_its_last(tmp_path: Path) -> None:
    path = tmp_path / "home" / "subsamples.jsonl"
    for run, night, share in (("a", "n", 0.5), ("a", "n", 0.25), ("b", "n", 0.125)):
        StoredShares(path).add(StoredShare(run, night, share))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"run": "c", "night": "n", "sha')
    found = StoredShares(path)
    assert [found.of_run(name) for name in "abc"] == [0.5, 0.125, None]
    assert (found.of_night("n"), found.of_night("m")) == (0.125, None)

"""Which episodes are finished, as a lake's files say it now."""

from pathlib import Path

import pytest

from schemas.episode import StopReason
from tasks.storage.parquet_store import Lake
from tasks.storage.run_rows import EpisodeFiles
from tests.tasks.planning.test_report import episode


def test_runs_of_a_model_read_each_file_once_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, read = Lake(tmp_path), list[str]()
    first = episode("a")
    keys = {"benchmark": first.benchmark, "model": first.model, "run_id": first.run_id}
    one = lake.write_part("episodes", [first], "one", **keys)
    look = Lake.read_arrow
    monkeypatch.setattr(
        Lake,
        "read_arrow",
        lambda self, table, parts, *c: (
            read.extend(p.name for p in parts) or look(self, table, parts, *c)
        ),
    )
    ours, theirs = (EpisodeFiles(Lake(tmp_path), first.benchmark, first.model) for _ in range(2))
    assert ours.finished(["a", "b"]).keys() == theirs.finished(["a", "b"]).keys() == {"a"}
    assert read == [one.name]
    lake.write_part("episodes", [episode("b")], "two", **keys)
    assert theirs.finished(["a", "b"]).keys() == ours.finished(["a", "b"]).keys() == {"a", "b"}
    assert read == [one.name, "part-two.parquet"]
    lake.write_part(
        "episodes",
        [first.model_copy(update={"stop_reason": StopReason.INFRA, "error": "away"})],
        "one",
        **keys,
    )
    assert ours.finished(["a", "b"]).keys() == theirs.finished(["a", "b"]).keys() == {"b"}
    assert read == [one.name, "part-two.parquet", one.name], "the file that was replaced"

"""`parley build`: files from finished runs of the lake, put in place whole or not at all."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flows.cli.exports import stored_run
from flows.cli.exports.stored_run import build
from flows.text.listings import listing
from schemas.episode import Episode
from schemas.errors import UnknownName, UsageError
from schemas.lake.records import RunEpisode, RunRecord
from schemas.run import ModelIdentity, RunSpec
from tasks.benchmarks import registry
from tasks.benchmarks.convcode.log_files.logs import static_dialogs
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.constructed import BENCHMARK, PAIRS
from tests.tasks.benchmarks.convcode.live_runs import PROBLEMS, play, record, spec

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]

WHAT, MODEL = "convcode-logs", "recorded:lab/subject"
EXPERT, NOVICE = "live[f_c,f_e*,f_v*]", "live[f_c,f_e,f_v]"
LOG = "bigcodebench_lab_subject_CF_EF_FULL_SEF_by_speaker.jsonl"


@pytest.fixture(scope="module")
def episodes(bubblewrap: str) -> Sequence[Episode]:
    """Really played ones, of the expert's setting."""
    return play(spec(EXPERT))


Keep = Callable[..., RunSpec]


@pytest.fixture
def keep(home: Path, episodes: Sequence[Episode]) -> Keep:
    """Puts a run with those episodes into the home's lake."""

    def kept(run: RunSpec | None = None, **changes: Any) -> RunSpec:
        run = run or spec(EXPERT)
        keys = {"benchmark": run.benchmark, "model": run.subject.label, "run_id": run.run_id}
        own = [
            e.model_copy(
                update={
                    "model": run.subject.label,
                    "run_id": run.run_id,
                    "episode_id": f"{run.run_id} {e.problem_id}",
                }
            )
            for e in episodes
        ]
        lake = Lake(Home.at(home).lake)
        lake.write_part("episodes", own, "1", **keys)
        members = [
            RunEpisode(**keys, episode_id=e.episode_id, problem_id=e.problem_id, sample=0)
            for e in own
        ]
        lake.write_part("run_episodes", members, "1", **keys)
        lake.write_part("runs", [RunRecord.model_validate(record(run) | changes)], "1", **keys)
        return run

    return kept


def told(
    home: Path, out: Path, *runs: str, model: str | None = None, replace: bool = False
) -> tuple[str, ...]:
    return build(Home.at(home), WHAT, runs, model, out, replace=replace)


def said_by(out: Path) -> str:
    """The expert's words on the first turn of a task, from a log."""
    rows = [json.loads(line) for line in (out / LOG).read_text(encoding="utf-8").splitlines()]
    return rows[0]["user_feedback"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_can_be_built_is_listed_with_what_it_is_made_from(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        registry, "constructions", lambda: {"constructed-pairs": (BENCHMARK, PAIRS)}
    )
    columns, rows = listing(Home.at(home), "builds")
    said = {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
    assert said[WHAT]["made_by"].startswith("runs of live")
    assert said["constructed-pairs"]["made_by"] == "a model and a judge and a sandbox"
    assert said["constructed-pairs"]["options"] == "pairs=2|3"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("constructed-pears", "--model", "x"), ["'constructed-pears'", "constructed-pairs", WHAT]),
        ((WHAT, "--model", MODEL, "--limit", "3"), [WHAT, "built from finished runs"]),
        ((WHAT, "--model", MODEL, "--budget", "tokens=9"), [WHAT, "built from finished runs"]),
        (
            ("codeif-repos", "--out", "x", "--budget", "hours=1"),
            ["codeif-repos", "no other options than --checkout, --fetch"],
        ),
        (
            ("codeif-repos", "--out", "x", "--resource", "project=y"),
            ["unknown resource 'project' of codeif-repos", "projects"],
        ),
        (
            ("codeif-repos", "--out", "x", "--resource", "projects=y"),
            ["y is not a list of projects"],
        ),
        (
            ("codeif-repos", "--out", "x", "--checkout", "here"),
            ["--checkout 'here' does not have the form OWNER/NAME=PATH"],
        ),
        (
            (
                "constructed-pairs",
                "--model",
                "control:empty",
                "--out",
                "x",
                "--budget",
                "tokens=9,then=subsample",
            ),
            ["then=subsample", "all files or none", "--limit"],
        ),
        (("constructed-pairs", "--run", "abc"), ["built by model calls", "--model"]),
        (("constructed-pairs", "--model", "control:empty"), ["--out DIR"]),
        (("constructed-pairs", "--model", "control:empty", "--out", "x"), ["--judge SPEC"]),
        (
            ("constructed-pairs", "--model", "a:1", "--model", "model=b:2", "--out", "x"),
            ["'model'", "a:1 and b:2"],
        ),
    ],
)
def test_a_mistake_gets_one_message(
    home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: list[str]
) -> None:
    monkeypatch.setattr(
        registry, "constructions", lambda: {"constructed-pairs": (BENCHMARK, PAIRS)}
    )
    done = parley(home, "build", *arguments)
    assert (done.code, [part for part in said if part not in done.err]) == (2, []), done.err
    assert not home.exists()


def test_the_command_makes_a_folder_that_can_be_replayed(
    home: Path, keep: Keep, tmp_path: Path
) -> None:
    run = keep()
    out = tmp_path / "data" / "logs"
    line = parley(home, "build", WHAT, "--model", MODEL, "--out", out, "--json").json()
    assert line == {
        "out": str(out),
        "built": [f"{EXPERT}: 3 logs of 4 tasks, from run {run.run_id[:12]}"],
    }
    assert len(static_dialogs(PROBLEMS, out)) == 4 + 2 + 1 + 2
    again = parley(home, "build", WHAT, "--run", run.run_id[:8], "--out", out)
    assert (again.code, again.out) == (2, "")
    assert "already contains 6 files" in again.err
    assert "--force" in again.err


def test_of_a_model_the_latest_finished_run_of_each_setting_is_taken(
    home: Path, keep: Keep, tmp_path: Path
) -> None:
    early, late = spec(EXPERT), spec(EXPERT, seed=1)
    keep(late, finished_at="2026-02-01T00:00:00+00:00")
    keep(early)
    keep(spec(EXPERT, seed=2), finished_at="2026-03-01T00:00:00+00:00", status="withheld")
    novice = keep(spec(NOVICE))
    keep(spec("live[none]"))
    keep(spec(EXPERT, subject=ModelIdentity(provider="recorded", name="other")))
    lines = told(home, tmp_path / "logs", model="lab/subject")
    assert lines == (
        f"{NOVICE}: 3 logs of 4 tasks, from run {novice.run_id[:12]}",
        f"{EXPERT}: 3 logs of 4 tasks, from run {late.run_id[:12]}",
    )
    assert told(home, tmp_path / "one", early.run_id) == (
        f"{EXPERT}: 3 logs of 4 tasks, from run {early.run_id[:12]}",
    )


def test_what_cannot_be_built_says_why(home: Path, keep: Keep, tmp_path: Path) -> None:
    run, twin, none = keep(), keep(spec(EXPERT, seed=1)), keep(spec("live[none]"))
    open_run = keep(spec(NOVICE), status="incomplete")
    keep(spec(NOVICE, subject=ModelIdentity(provider="openai", name="lab/subject")))
    out = tmp_path / "logs"
    with pytest.raises(UnknownName, match=r"unknown build 'convcode-log'; known: .*convcode-logs"):
        build(Home.at(home), "convcode-log", (), MODEL, out, replace=False)
    for runs, model in (((), None), ((run.run_id,), MODEL)):
        with pytest.raises(UsageError, match="pass either --run RUN or --model MODEL"):
            told(home, out, *runs, model=model)
    with pytest.raises(
        UsageError,
        match=rf"{none.run_id} has setting convcode\.live\[none\], but this build needs convcode\.",
    ):
        told(home, out, none.run_id)
    with pytest.raises(UsageError, match=rf"{open_run.run_id} is incomplete, not finished"):
        told(home, out, open_run.run_id)
    with pytest.raises(
        UsageError, match=r"both have setting convcode\.live\[f_c,f_e\*,f_v\*\]\. Pass only one"
    ):
        told(home, out, run.run_id, twin.run_id)
    with pytest.raises(
        UsageError,
        match="'lab/subject' matches several models: openai:lab/subject, recorded:lab/subject",
    ):
        told(home, out, model="lab/subject")
    with pytest.raises(
        UnknownName, match="'nobody'; known: openai:lab/subject, recorded:lab/subject"
    ):
        told(home, out, model="nobody")
    assert not out.exists()


def test_an_earlier_build_is_replaced_only_when_told_to(
    home: Path, keep: Keep, tmp_path: Path
) -> None:
    run, out = keep(), tmp_path / "logs"
    told(home, out, run.run_id)
    (out / LOG).write_text("spoilt")
    (out / "bigcodebench_older_CF.jsonl").write_text("older")
    with pytest.raises(UsageError, match=rf"{out} already contains 7 files .*--force"):
        told(home, out, run.run_id)
    assert (out / LOG).read_text() == "spoilt"
    told(home, out, run.run_id, replace=True)
    assert said_by(out).startswith("Round 1 of Plot/2 is wrong.")
    assert len(names(out)) == 6
    assert names(tmp_path) == ["logs", "parley-home"]


def test_force_removes_no_file_of_others(home: Path, keep: Keep, tmp_path: Path) -> None:
    run, out = keep(), tmp_path / "work"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(
        UsageError, match=r"contains 'thesis\.tex', which this build did not create, so --force"
    ):
        told(home, out, run.run_id, replace=True)
    assert names(out) == ["thesis.tex"]
    with pytest.raises(UsageError, match=r"thesis\.tex is a file, not a folder"):
        told(home, out / "thesis.tex", run.run_id, replace=True)


def test_an_empty_folder_is_filled(home: Path, keep: Keep, tmp_path: Path) -> None:
    run, out = keep(), tmp_path / "logs"
    out.mkdir()
    told(home, out, run.run_id)
    assert len(names(out)) == 6
    assert names(tmp_path) == ["logs", "parley-home"]


@pytest.mark.parametrize("replace", [False, True])
def test_a_build_that_fails_leaves_everything_as_it_was(
    replace: bool, home: Path, keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = keep(), tmp_path / "logs"
    if replace:
        told(home, out, run.run_id)
    before = names(tmp_path)
    monkeypatch.setattr(stored_run, "read_episodes", _torn)
    with pytest.raises(OSError, match="the disk went away"):
        told(home, out, run.run_id, replace=replace)
    assert names(tmp_path) == before
    assert not replace or said_by(out)


def _torn(*_: object) -> dict[str, Episode]:
    raise OSError("the disk went away")

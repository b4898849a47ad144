"""Live runs as log files in upstream's format, and back."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.dialog import Role
from schemas.episode import Episode, StopReason
from schemas.errors import UsageError
from schemas.run import ModelIdentity
from tasks.benchmarks.convcode.log_files.build_logs import BUILD, owns, write_logs
from tasks.benchmarks.convcode.log_files.log_folder import EVAL_SUFFIX
from tasks.benchmarks.convcode.log_files.logs import static_dialogs
from tasks.benchmarks.convcode.settings import ALL_PASS, LIVE, NO_SYNTAX_ERRORS, STATIC
from tasks.benchmarks.results import FinishedRun
from tests.tasks.benchmarks.convcode.live_runs import (
    BROKEN,
    NUMBERS_ONLY,
    PLOTS,
    PROBLEMS,
    RIGHT,
    WRONG,
    finished,
    play,
    spec,
)

pytestmark = pytest.mark.usefixtures("bubblewrap")

EXPERT, NOVICE, TESTS_ONLY, COMPILER = (
    "live[f_c,f_e*,f_v*]",
    "live[f_c,f_e,f_v]",
    "live[f_c,f_e*]",
    "live[f_c]",
)
Rows = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def live(bubblewrap: str) -> Mapping[str, FinishedRun]:
    """Finished runs by setting."""
    runs = {setting: spec(setting) for setting in (EXPERT, NOVICE, TESTS_ONLY, COMPILER)}
    played = {setting: play(run) for setting, run in runs.items()}
    return {
        setting: finished(run, lambda setting=setting: played[setting])
        for setting, run in runs.items()
    }


@pytest.fixture(scope="module")
def logs(live: Mapping[str, FinishedRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    write_logs(tuple(live.values()), folder)
    return folder


def rows(folder: Path, name: str) -> Rows:
    lines = (
        (folder / f"bigcodebench_lab_subject_CF{name}.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    return {row["task_id"]: row for row in map(json.loads, lines)}


def results(folder: Path, name: str) -> Mapping[str, Any]:
    path = folder / f"bigcodebench_lab_subject_CF{name}{EVAL_SUFFIX}"
    return {
        task: only for task, (only,) in json.loads(path.read_text(encoding="utf-8"))["eval"].items()
    }


def feedback(row: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    return row["compilation_feedback"], row["execution_feedback"], row["user_feedback"]


def test_each_turn_of_each_setting_has_a_log_and_its_results(logs: Path) -> None:
    settings = ("_EF_FULL_SEF_by_speaker", "_EF_UNIT_SNF_by_speaker", "_EF_FULL", "")
    stems = {
        f"bigcodebench_lab_subject_CF{setting}{turn}"
        for setting in settings
        for turn in ("_ITER=0", "", "_ITER=2")
    }
    assert {path.name for path in logs.iterdir()} == {
        stem + end for stem in stems for end in (".jsonl", EVAL_SUFFIX)
    }
    assert all(owns(path.name) for path in logs.iterdir())
    assert not owns("thesis.tex")
    assert not owns(f"other{EVAL_SUFFIX}")


def test_a_row_has_the_feedback_on_the_turn_before_and_the_code_it_led_to(logs: Path) -> None:
    row = rows(logs, "_EF_FULL_SEF_by_speaker")["Plot/2"]
    compilation, execution, verbal = feedback(row)
    assert row["solution"] == BROKEN
    assert compilation == NO_SYNTAX_ERRORS
    assert execution is not None
    assert execution.startswith("TEST_CASE_1\n")
    assert verbal == "Round 1 of Plot/2 is wrong.\nBoth lines."
    assert row["log"] == f"So:\n```python\n{BROKEN}```\nThat is it."
    assert (row["iteration"], row["dataset_version"], row["row_digest"], row["turns"]) == (
        1,
        "sample",
        "digest of Plot/2",
        2,
    )
    compilation, _, verbal = feedback(rows(logs, "_EF_FULL_SEF_by_speaker_ITER=2")["Plot/2"])
    assert compilation is not None
    assert "SyntaxError" in compilation
    assert verbal == "Round 2 of Plot/2 is wrong.\nBoth lines."


def test_tasks_are_in_the_order_of_their_numbers(logs: Path) -> None:
    assert (
        list(rows(logs, "")) == list(results(logs, "")) == ["Plot/2", "Plot/3", "Plot/4", "Plot/10"]
    )


def test_a_solved_task_is_carried_on_without_feedback(logs: Path) -> None:
    row = rows(logs, "_EF_FULL_SEF_by_speaker_ITER=2")["Plot/10"]
    assert (row["solution"], row["log"], *feedback(row)) == (RIGHT, None, None, None, None)
    assert [
        results(logs, f"_EF_FULL_SEF_by_speaker{turn}")["Plot/10"]["status"]
        for turn in ("_ITER=0", "", "_ITER=2")
    ] == [
        "fail",
        "pass",
        "pass",
    ]


def test_where_a_novice_had_nothing_to_say_the_code_is_carried_on_with_what_was_shown(
    logs: Path,
) -> None:
    for turn in ("", "_ITER=2"):
        row = rows(logs, f"_EF_UNIT_SNF_by_speaker{turn}")["Plot/4"]
        assert (row["solution"], *feedback(row)) == (NUMBERS_ONLY, NO_SYNTAX_ERRORS, ALL_PASS, None)
        assert results(logs, f"_EF_UNIT_SNF_by_speaker{turn}")["Plot/4"]["status"] == "fail"
    assert feedback(rows(logs, "")["Plot/4"]) == (NO_SYNTAX_ERRORS, None, None)


def test_results_name_the_tests_that_fail(logs: Path) -> None:
    found = results(logs, "_EF_FULL_ITER=0")["Plot/2"]
    assert (found["task_id"], found["solution"]) == ("Plot/2", WRONG)
    assert list(found["details"]) == ["test_case_1", "test_case_2", "test_case_4"]
    assert "AssertionError" in found["details"]["test_case_1"]
    assert list(results(logs, "_EF_FULL")["Plot/2"]["details"]) == ["ALL"]
    assert "SyntaxError" in results(logs, "_EF_FULL")["Plot/2"]["details"]["ALL"]
    assert results(logs, "_EF_FULL")["Plot/3"]["details"] == {}
    date = json.loads(
        (logs / f"bigcodebench_lab_subject_CF{EVAL_SUFFIX}").read_text(encoding="utf-8")
    )["date"]
    assert date == "2026-01-02 03:04"


def test_replayed_prompts_are_those_of_the_live_run(
    live: Mapping[str, FinishedRun], logs: Path
) -> None:
    dialogs = {dialog.dialog_id: dialog for dialog in static_dialogs(PROBLEMS, logs)}
    said = {
        f"{episode.problem_id}#{LIVE[setting].name}#{step.turn - 1}": step.content
        for setting in (EXPERT, NOVICE)
        for episode in live[setting].episodes()
        for step in episode.steps
        if step.role is Role.USER and step.turn > 1
    }
    assert len(said) == 10 - 2  # the silent novice asks nothing of Plot/4
    assert {
        name: dialog.turns[0].content for name, dialog in dialogs.items() if not name.endswith("#0")
    } == said
    assert {name for name in dialogs if name.endswith("#0")} == {
        f"{task}#{STATIC[setting].name}#0"
        for task in PLOTS
        for setting in ("static[f_c,f_e*,f_v*]", "static[f_c,f_e,f_v]")
    }


def test_the_same_runs_give_the_same_bytes(
    live: Mapping[str, FinishedRun], logs: Path, tmp_path: Path
) -> None:
    turned = [
        finished(run.spec, lambda run=run: tuple(reversed(run.episodes()))) for run in live.values()
    ]
    write_logs(turned, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        p.name: p.read_bytes() for p in logs.iterdir()
    }


def test_a_dialogue_that_was_cut_short_is_left_out_and_said(
    live: Mapping[str, FinishedRun], tmp_path: Path
) -> None:
    first, *others = live[EXPERT].episodes()
    told = write_logs(
        [_with(live[EXPERT], first.model_copy(update={"stop_reason": StopReason.INFRA}), *others)],
        tmp_path,
    )
    assert told == (
        f"{EXPERT}: 3 logs of 3 tasks, from run {live[EXPERT].run_id[:12]};"
        " omitted, since their dialogues ended early: Plot/2",
    )
    assert set(rows(tmp_path, "_EF_FULL_SEF_by_speaker")) == {"Plot/3", "Plot/4", "Plot/10"}
    assert static_dialogs(PROBLEMS, tmp_path)


def test_of_several_samples_the_first_is_logged(
    live: Mapping[str, FinishedRun], tmp_path: Path
) -> None:
    second = [
        e.model_copy(update={"sample": 1, "steps": e.steps[:2]}) for e in live[EXPERT].episodes()
    ]
    write_logs([_with(live[EXPERT], *second, *live[EXPERT].episodes())], tmp_path)
    assert rows(tmp_path, "_EF_FULL_SEF_by_speaker")["Plot/2"]["solution"] == BROKEN


def _with(run: FinishedRun, *episodes: Episode) -> FinishedRun:
    return finished(run.spec, lambda: episodes)


def _other_specs() -> Iterator[Any]:
    other = ModelIdentity(provider="recorded", name="other")
    yield pytest.param(
        {"subject": other}, "of a single model.*recorded:lab/subject.*recorded:other", id="model"
    )
    yield pytest.param(
        {"simulator": other},
        "of a single simulator.*recorded:speaker.*recorded:other",
        id="simulator",
    )
    yield pytest.param(
        {"dataset_version": "mbpp"}, "of a single dataset version.*sample.*mbpp", id="dataset"
    )


@pytest.mark.parametrize(("changes", "told"), tuple(_other_specs()))
def test_runs_that_do_not_go_together_are_refused(
    changes: dict[str, object], told: str, live: Mapping[str, FinishedRun], tmp_path: Path
) -> None:
    other = finished(spec(NOVICE, **changes), tuple)
    with pytest.raises(UsageError, match=rf"{told}.*--run RUN"):
        write_logs([live[EXPERT], other], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_model_that_spoke_to_itself_is_no_simulator_in_names(tmp_path: Path) -> None:
    run = spec(EXPERT, simulator=spec(EXPERT).subject)
    write_logs([finished(run, tuple)], tmp_path)
    assert (tmp_path / "bigcodebench_lab_subject_CF_EF_FULL_SEF.jsonl").is_file()


def test_every_live_setting_with_feedback_can_be_logged() -> None:
    assert len(BUILD.settings) == 9
    assert "live[none]" not in BUILD.settings

"""ConvCodeBench: logs as dialogs of one message each."""

import gzip
from pathlib import Path

import pytest

from schemas.dialog import Dialog, Role
from schemas.episode import Feedback, FeedbackSetting, VerbalFeedback
from schemas.errors import SourceUnreadable
from tasks.benchmarks.convcode.log_files.logs import static_dialogs
from tasks.benchmarks.convcode.settings import MOST_TURNS, compose, plays
from tests.tasks.benchmarks.convcode.logged import (
    EXPERT,
    NOVICE,
    PROBLEMS,
    TASKS,
    UNREPLAYED,
    Logged,
    code,
    edit,
    problem,
    write_logs,
    write_results,
)


def label(dialog: Dialog, name: str) -> str:
    return dict(dialog.labels)[name]


def by_task(dialogs: tuple[Dialog, ...]) -> dict[str, list[str]]:
    """Turns that have a dialog, by task."""
    found: dict[str, list[str]] = {}
    for dialog in dialogs:
        found.setdefault(dialog.problem_id, []).append(label(dialog, "iteration"))
    return found


def test_a_turn_shows_the_problem_the_references_code_and_what_was_said_of_it(
    tmp_path: Path,
) -> None:
    dialogs = {
        dialog.dialog_id: dialog for dialog in static_dialogs(PROBLEMS, write_logs(tmp_path))
    }
    second = dialogs["Task/1#f_c,f_e*,f_v*#2"]
    said = Feedback(
        compilation="No syntax errors",
        execution="TEST_CASE_1\nwrong at 1",
        verbal="Mend turn 1 of Task/1.",
    )
    assert [(turn.turn, turn.role) for turn in second.turns] == [
        (1, Role.USER),
        (1, Role.ASSISTANT),
    ]
    assert second.turns[0].content == compose("Write Task/1.", code("Task/1", 1), said)
    assert second.problem_digest == "digest of Task/1"
    assert dict(second.labels) == {
        "part": "static",
        "setting": "f_c,f_e*,f_v*",
        "iteration": "2",
        "last_iteration": "2",
        "reference_model": "ref",
        "simulator": "gpt-4o",
        "reference_solved_at": "",
        "asked": "0,1,2",
    }


def test_the_targets_own_first_turn_is_the_bare_problem(tmp_path: Path) -> None:
    firsts = [
        d for d in static_dialogs(PROBLEMS, write_logs(tmp_path)) if label(d, "iteration") == "0"
    ]
    assert [dialog.turns[0].content for dialog in firsts] == [f"Write {task}." for task in TASKS]


def test_nothing_is_asked_after_the_reference_had_solved_a_task(tmp_path: Path) -> None:
    dialogs = static_dialogs(PROBLEMS, write_logs(tmp_path))
    assert by_task(dialogs) == {"Task/1": ["0", "1", "2"], "Task/2": ["0", "1"], "Task/3": ["0"]}
    solved = {dialog.problem_id: label(dialog, "reference_solved_at") for dialog in dialogs}
    assert solved == {"Task/1": "", "Task/2": "1", "Task/3": "0"}
    asked = {dialog.problem_id: label(dialog, "asked") for dialog in dialogs}
    assert asked == {"Task/1": "0,1,2", "Task/2": "0,1", "Task/3": "0"}


def test_nothing_is_asked_where_a_novice_said_nothing(tmp_path: Path) -> None:
    tasks = {"Task/1": Logged(silent=(2,))}
    dialogs = static_dialogs(PROBLEMS, write_logs(tmp_path, NOVICE, turns=3, tasks=tasks))
    assert by_task(dialogs) == {"Task/1": ["0", "1", "3"]}
    assert {label(dialog, "reference_solved_at") for dialog in dialogs} == {""}


SYNTAX_ERROR = (
    'Traceback (most recent call last):\n  File "tmp.py", line 1\nSyntaxError: invalid syntax\n'
)


@pytest.mark.parametrize(
    ("setting", "execution"), [(EXPERT, None), (NOVICE, "Passed all test runs")]
)
def test_where_the_compiler_alone_spoke_the_turn_is_asked_with_its_message(
    setting: FeedbackSetting, execution: str | None, tmp_path: Path
) -> None:
    """Upstream's logs of code that three calls did not mend, and of a novice who is shown the first
    tests alone.
    """
    folder = write_logs(tmp_path, setting, tasks={"Task/1": Logged()})
    told = {
        "compilation_feedback": SYNTAX_ERROR,
        "execution_feedback": execution,
        "user_feedback": None,
    }
    [log] = (path for path in folder.glob("*_ITER=2.jsonl"))
    edit(log, 1, lambda row: row.update(iteration=5, **told))
    dialogs = static_dialogs(PROBLEMS, folder)
    assert by_task(dialogs) == {"Task/1": ["0", "1", "2"]}
    said = Feedback(compilation=SYNTAX_ERROR, execution=execution)
    assert dialogs[2].turns[0].content == compose("Write Task/1.", code("Task/1", 1), said)


def test_a_task_stays_solved_where_its_tests_waver(tmp_path: Path) -> None:
    """The code that passed at turn 1 failed at turn 2, so that upstream asked for turn 3."""
    folder = write_logs(tmp_path, turns=3, tasks={"Task/2": Logged(solved_at=1)})
    name = "bigcodebench_ref_CF_EF_FULL_SEF_by_gpt-4o"
    write_results(folder / f"{name}_ITER=2.jsonl", {"Task/2": False})
    edit(folder / f"{name}_ITER=3.jsonl", 1, lambda row: row.update(user_feedback="Try again."))
    dialogs = static_dialogs(PROBLEMS, folder)
    assert by_task(dialogs) == {"Task/2": ["0", "1"]}
    assert {label(dialog, "reference_solved_at") for dialog in dialogs} == {"1"}


def test_every_setting_with_logs_worth_replaying_has_its_dialogs(tmp_path: Path) -> None:
    compiler_and_novice = FeedbackSetting(verbal=VerbalFeedback.NOVICE)
    for setting in (EXPERT, NOVICE, UNREPLAYED, compiler_and_novice):
        write_logs(tmp_path, setting)
    (tmp_path / "README.md").write_text("no log")
    (tmp_path / "static").mkdir()
    dialogs = static_dialogs(PROBLEMS, tmp_path)
    assert {label(dialog, "setting") for dialog in dialogs} == {EXPERT.name, NOVICE.name}
    assert len({dialog.row_digest for dialog in dialogs}) == len(dialogs) == 12
    assert sum(plays(f"static[{EXPERT.name}]", dialog) for dialog in dialogs) == 6
    assert not any(plays("live[f_c]", dialog) for dialog in dialogs)


def test_upstreams_own_files_are_replayed_too(tmp_path: Path) -> None:
    write_logs(
        tmp_path, turns=MOST_TURNS, upstream=True, model="codellama_CodeLlama-7b-Instruct-hf"
    )
    packed = (
        tmp_path
        / "bigcodebench_codellama_CodeLlama-7b-Instruct-hf_CF_EF_FULL_SEF_by_gpt-4o_ITER=7.jsonl"
    )
    packed.with_name(f"{packed.name}.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    dialogs = static_dialogs(PROBLEMS, tmp_path)
    assert by_task(dialogs)["Task/1"] == [str(turn) for turn in range(MOST_TURNS + 1)]
    assert {label(dialog, "reference_model") for dialog in dialogs} == {
        "codellama_CodeLlama-7b-Instruct-hf"
    }


def test_the_model_itself_may_have_been_the_simulator(tmp_path: Path) -> None:
    dialogs = static_dialogs(PROBLEMS, write_logs(tmp_path, model="gpt-4o", simulator=None))
    assert {label(dialog, "simulator") for dialog in dialogs} == {"gpt-4o"}


def digests(folder: Path) -> dict[str, str]:
    return {dialog.dialog_id: dialog.row_digest for dialog in static_dialogs(PROBLEMS, folder)}


def test_a_dialogs_digest_covers_what_was_logged_of_it_and_no_more(tmp_path: Path) -> None:
    before = digests(write_logs(tmp_path))
    log = tmp_path / "bigcodebench_ref_CF_EF_FULL_SEF_by_gpt-4o.jsonl"
    edit(log, 1, lambda row: row.update(log="another prompt", iteration=3))
    assert digests(tmp_path) == before
    edit(log, 1, lambda row: row.update(user_feedback="Other words."))
    assert _changed(before, digests(tmp_path)) == {"Task/1#f_c,f_e*,f_v*#1"}
    edit(log, 1, lambda row: row.update(user_feedback="Mend turn 0 of Task/1.", solution="other"))
    assert _changed(before, digests(tmp_path)) == {"Task/1#f_c,f_e*,f_v*#2"}


def _changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name, digest in after.items() if before[name] != digest}


def test_ours_may_be_of_some_tasks_upstreams_must_be_of_all(tmp_path: Path) -> None:
    some = {"Task/1": TASKS["Task/1"]}
    assert (
        by_task(static_dialogs(PROBLEMS, write_logs(tmp_path / "ours", tasks=some))).keys()
        == some.keys()
    )
    upstreams = write_logs(tmp_path / "theirs", turns=MOST_TURNS, tasks=some, upstream=True)
    with pytest.raises(
        SourceUnreadable,
        match=(
            r"by_gpt-4o\.jsonl has no row of task 'Task/2'.*exactly their "
            r"tasks \(1, but the data have 3\)"
        ),
    ):
        static_dialogs(PROBLEMS, upstreams)


def test_a_problem_that_reads_otherwise_now_is_named(tmp_path: Path) -> None:
    folder = write_logs(tmp_path)
    changed = problem("Task/2").model_copy(update={"row_digest": "new"})
    with pytest.raises(
        SourceUnreadable,
        match=r"by_gpt-4o\.jsonl:2: task 'Task/2' has changed since it was logged",
    ):
        static_dialogs((PROBLEMS[0], changed, PROBLEMS[2]), folder)

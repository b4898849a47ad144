"""What is said of why a run works again: also where two long texts differ far from their
beginnings.
"""

from pathlib import Path

import pytest

from flows.text.work import difference_text, explain, work_lines, work_markdown
from schemas.night.work import Difference, RunWork
from tasks.storage.home import Home
from tests.tasks.planning.test_why_rerun import record, with_
from tests.warehouse.small_run import write_part

BEFORE = "zygote in bubblewrap 0.8.0, unittest.mock (no version), " + ", ".join(
    f"package-{n} 1.0" for n in range(60)
)
AFTER = BEFORE.replace("package-50 1.0", "package-50 2.0")
DIFFERENCE = Difference(field="environment", before=BEFORE, after=AFTER, reruns="tests")


def work(**more: object) -> RunWork:
    fields = {
        "run_id": "r",
        "title": "t",
        "setting": "s",
        "model": "m",
        "status": "finished",
        "n_episodes": 1,
        "n_reused": 1,
    }
    return RunWork.model_validate(fields | {"compared_with": "r", "why": (DIFFERENCE,)} | more)


def test_a_difference_is_shown_where_it_is() -> None:
    said = difference_text(DIFFERENCE)
    assert "package-50 1.0, " in said.partition(" -> ")[0]
    assert "package-50 2.0, " in said.partition(" -> ")[2]
    assert len(said) < 160


def test_the_report_and_its_table_show_it_too() -> None:
    assert any("package-50 2.0" in line for line in work_lines(work()))
    assert "package-50 2.0" in work_markdown([work()])


def test_a_resumed_run_says_how_its_last_invocation_ended() -> None:
    status = Difference(
        field="status", before="incomplete", after="to be finished", reruns="nothing"
    )
    pending = Difference(field="owed", before="8", after="8", reruns="dialogues")
    *_, why = work_lines(work(n_new=1, why=(status, pending)))
    assert why == "why: its last invocation was incomplete; pending episodes: 8"


def test_why_rerun_shows_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older, newer = (
        record(with_(seed=seed), state=(("environment", environment),), work=work())
        for seed, environment in enumerate((BEFORE, AFTER))
    )
    for run in (older, newer):
        write_part(
            tmp_path, "runs", [run], "run", benchmark="b", model="openai:m", run_id=run.run_id
        )
    explain(Home(tmp_path), older.run_id, newer.run_id)
    said = capsys.readouterr().out.replace(",", "").split()
    assert said.count("2.0") == 1
    assert said.count("package-50") == 2
    explain(Home(tmp_path), newer.run_id)
    assert "2.0" in capsys.readouterr().out.replace(",", "").split()

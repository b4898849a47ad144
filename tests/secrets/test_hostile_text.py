"""Text of models, datasets and endpoints is data wherever it goes: terminal, markdown, pages, SQL,
exports, names of files.
"""

import random
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from flows.cli.commands import read as cli_read
from flows.cli.commands.evaluation import exit_code
from flows.cli.exports.exporting import export_recording
from flows.night.reporting.run_record import record_night
from flows.orchestration import artifacts
from flows.text.night import print_results, show_night
from flows.text.results import result_markdown
from flows.text.transcript import transcript_text
from flows.text.work import work_markdown
from schemas.errors import ConfigError
from schemas.outside.display import markdown_cell, plain_line
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.registry import BENCHMARKS
from tasks.language.model_spec import parse_model
from tasks.language.recorded_model import RecordedAnswer, load_recording, write_recording
from tasks.planning.dataset import write_staged
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.reporting.report import RunReport, works
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.corruptions.night import between, night, request
from tests.corruptions.night import without_prefect as without_prefect
from tests.corruptions.spoiling import put
from tests.fixtures.model_server import model_server
from tests.tasks.language.requests import ask, complete
from tests.warehouse.test_checks_docs import Page
from warehouse.connect import query

TEXTS = {
    "control": "a\x00b\x07c\x08\x7f\x9b31m",
    "ansi": "\x1b[2J\x1b[1;31mred\x1b[0m",
    "title": "\x1b]0;EVIL\x07\x1b]8;;http://evil.test\x1b\\link\x1b]8;;\x1b\\",
    "bidi": "user\u202egnp.exe\u2066\u200f\u061c",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>&lt;b&gt;",
    "markdown": (
        "| x |\n|---|\n# h\n`code` **b** [l](http://evil.test) ![i](//evil.test) ~~s~~ $x$ "
        "<http://e.test>"
    ),
    "links": "see http://evil.test and www.evil.test or me@evil.test",
    "sql": "'; DROP TABLE runs; --\"'); SELECT 1; $run ? {} {0} %s",
    "path": "../../../../etc/passwd\\..\\..\\C:%2e%2e%2f%00CON/NUL.txt",
    "lines": "one\r\ntwo\rthree\u2028four\u2029five\x85six\x0bseven\x0ceight",
    "long": "é漢🐍" * 400,
    "surrogate": "\ud800half\udfff",
    "blank": " \t ",
}
HOSTILE = " ".join(text for name, text in TEXTS.items() if name != "long")
NAME = "we'ird;--<b>|`x`%2e%2e$(id)"
"""As a file's name, and so as a model's: all that a file system takes and a table might not."""
PROGRAM = f"```python\nraise RuntimeError({HOSTILE!r})\n```"


def assert_tame(text: str) -> None:
    """No character acts on a terminal or hides what is beside it."""
    acting = {ascii(c) for c in text if unicodedata.category(c)[0] == "C" and c not in "\n\t"}
    assert acting == set(), ascii(text[:500])


def assert_one_table(markdown: str) -> None:
    """Each line has the cells of the head, and no cell holds markup."""
    assert_tame(markdown)
    lines = markdown.splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    for line in lines:
        assert not re.search(r"(?<!\\)[`*<>\[\]~$!]|&(?!amp;)|://|www\.|(?<!\\)@", line), line


@dataclass(frozen=True)
class PlayedRun:
    home: Home
    plan: RunPlan
    reports: list[RunReport]
    withheld: list[RunReport]


def hostile_data() -> Staged:
    """The sample with the texts above wherever a dataset has text; two problems."""
    benchmark = BENCHMARKS.load("codeif")
    staged = benchmark.data.stage(Path(str(benchmark.data.sample)), "current")
    problems, dialogs = [], []
    for number, (problem, dialog) in enumerate(
        zip(staged.problems[:2], staged.dialogs[:2], strict=True)
    ):
        name = f"{number} {HOSTILE}" if number else TEXTS["long"]
        told = tuple(
            i.model_copy(update={"text": f"{i.text} {HOSTILE}"}) for i in problem.instructions
        )
        changes = {
            "problem_id": name,
            "level": HOSTILE,
            "prompt": HOSTILE,
            "instructions": told,
            "source_file": HOSTILE,
        }
        problems.append(problem.model_copy(update=changes))
        turns = tuple(
            t.model_copy(update={"content": t.content and f"{t.content} {HOSTILE}"})
            for t in dialog.turns
        )
        dialogs.append(
            dialog.model_copy(update={"problem_id": name, "dialog_id": name, "turns": turns})
        )
    return Staged(tuple(dialogs), tuple(problems), (), 2)


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, without_prefect: None, bubblewrap: str
) -> PlayedRun:
    """A night on that dataset with answers of that kind, and one that a check stops at a value of
    that kind.
    """
    folder = tmp_path_factory.mktemp("hostile")
    home = Home(folder / "home")
    write_staged(hostile_data(), "codeif", "current", Lake(home.lake))
    recording = folder / f"{NAME}.jsonl"
    staged = plan_run(request("control:gold", dataset_version="current"), home).staged
    answers = [
        RecordedAnswer(dialog.problem_id, turn, f"{HOSTILE}\n{PROGRAM}")
        for dialog in staged.dialogs
        for turn in range(1, len(dialog.instruction_ids) + 1)
    ]
    write_recording(recording, answers)
    asked = request(f"recorded:{recording}", dataset_version="current", samples=1, limit=None)
    told = night(home.path, asked)
    assert [r.status for r in told.reports] == ["finished"], told.errors
    record_night(home, "20260101T000000-hostile", "2026-01-01T00:00:00Z", told.reports)
    spoiled = asked.model_copy(
        update={
            "max_fault_share": 0.5,
            "model": asked.model.model_copy(update={"temperature": 0.5}),
        }
    )
    return PlayedRun(home, plan_run(asked, home), told.reports, _withheld(home, spoiled))


def _withheld(home: Home, asked: EvaluationRequest) -> list[RunReport]:
    def spoil(plan: RunPlan) -> None:
        put("stop_reason", HOSTILE.encode("utf-8", "replace").decode())(
            plan.lake.folder("episodes", **plan.keys), random.Random(1)
        )

    with between({"converse": spoil}):
        told = night(home.path, asked)
    assert [r.status for r in told.reports] == ["withheld"], told.errors
    return told.reports


pytestmark = pytest.mark.slow


def test_it_got_there(played: PlayedRun) -> None:
    rows = query(played.home.path, "select distinct problem_id from scores")[1]
    assert len(rows) == 2
    assert any("DROP TABLE runs" in name and "\x1b]0;EVIL" in name for (name,) in rows)
    details = query(
        played.home.path, "select detail from test_verdicts where contains(detail, 'alert(1)')"
    )[1]
    assert details


def test_what_is_published_is_what_was_said(played: PlayedRun) -> None:
    said = query(played.home.path, "select distinct content from turns where role = 'assistant'")[1]
    assert said == [
        (f"{HOSTILE}\n{PROGRAM}".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),)
    ]
    assert query(played.home.path, "select count(*) > 0 from runs")[1] == [(True,)]


def test_the_terminal_shows_it_tame(
    played: PlayedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_HOME", str(played.home.path))
    for what in get_args(cli_read.Kind):
        cli_read.list_things(what)
    cli_read.list_things("models", first=True)
    for table in (
        "turns",
        "test_verdicts",
        "problems",
        "episodes",
        "leaderboard",
        "quality_checks",
        "runs",
    ):
        cli_read.sql(f"select * from {table} limit 20")
    show_night(played.home, None, json_output=False)
    print_results(played.home, played.reports)
    assert exit_code(played.withheld) == 3
    out, err = capsys.readouterr()
    assert len(out) > 10_000
    assert "stop_reason_known" in err
    assert_tame(out)
    assert_tame(err)
    assert len(err.splitlines()) == 1


def test_json_is_ascii(
    played: PlayedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_HOME", str(played.home.path))
    cli_read.sql("select * from turns", json_output=True)
    cli_read.list_things("episodes", json_output=True)
    show_night(played.home, None, json_output=True)
    out = capsys.readouterr().out
    assert out.isascii()
    assert len(out.splitlines()) == 3
    assert_tame(out)


def test_a_transcript_is_tame_and_keeps_its_lines(played: PlayedRun) -> None:
    for wanted in played.plan.wanted:
        text = transcript_text(played.home, wanted.episode_id)
        assert_tame(text)
        assert "raise RuntimeError(" in text
        assert len(
            re.findall(r"^── step \d+ · turn \d+ · (?:user|assistant)", text, re.MULTILINE)
        ) == 2 * len(played.plan.dialog(wanted).instruction_ids)


def test_markdown_stays_one_table(played: PlayedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    for name in ("create_markdown_artifact", "create_link_artifact"):
        monkeypatch.setattr(
            f"prefect.artifacts.{name}", lambda *a, **k: made.append({"values": a, **k})
        )
    run_ids = [report.run_id for report in played.reports]
    results = result_markdown(played.home, run_ids)
    assert NAME[:7] in results
    assert_one_table(results)
    assert_one_table(work_markdown(works(played.reports)))
    names = (
        "setting",
        "model",
        "against",
        "other_model",
        "metric",
        "event",
        "interval_kind",
        "decision",
    )
    numbers = (
        "other_mean",
        "mean",
        "difference",
        "ci_low",
        "q_value",
        "mde",
        "n_problems",
        "judge_n",
    )
    compared = (
        dict.fromkeys(names, HOSTILE)
        | dict.fromkeys(numbers)
        | {"run_id": "a", "other_run_id": "b"}
    )
    artifacts.show_results("20261101T020000", results, [compared], played.home, played.reports)
    assert len(made) == 3
    assert all(re.fullmatch(r"[a-z0-9-]+", artifact["key"]) for artifact in made)
    link_of_ours = re.compile(r"\[(file:[^\]]*)\]\(\1\)")
    for artifact in made:
        table, _, ours = artifact["values"][0].partition("\n\n")
        assert_one_table(link_of_ours.sub("", table))
        assert_tame(ours)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_cell_holds_any_text(text: str) -> None:
    assert_one_table(f"| cell |\n| {markdown_cell(text)} |")
    assert_tame(plain_line(text))
    assert "\n" not in plain_line(text)


def test_pages_show_it_and_run_nothing(played: PlayedRun) -> None:
    pages = [Page(path) for path in played.home.docs.rglob("*.html")]
    assert any("alert(1)" in page.text for page in pages)
    for page in pages:
        assert {tag for tag, _ in page.tags} & {
            "script",
            "img",
            "iframe",
            "link",
            "object",
            "b",
        } == set()
        assert [name for _, attrs in page.tags for name in attrs if name.startswith("on")] == []
        assert_tame(page.text.replace("\r", ""))


def test_an_export_gives_the_answers_back(played: PlayedRun, tmp_path: Path) -> None:
    out = tmp_path / "exported.jsonl"
    n_answers = export_recording(played.home, played.reports[0].run_id, out)
    before = load_recording(Path(str(played.plan.subject.endpoint.path)))
    assert dict(load_recording(out).answers) == dict(before.answers)
    assert len(before.answers) == n_answers == len(out.read_bytes().splitlines())


def test_names_of_files_are_plain_and_stay_inside(played: PlayedRun) -> None:
    for path in played.home.path.rglob("*"):
        assert re.fullmatch(r"[\w.,=%~ -]+", path.name, re.ASCII), path.name
        assert len(path.name.encode()) <= 255
    assert sorted(p.name for p in played.home.path.parent.iterdir()) == ["home", f"{NAME}.jsonl"]


@pytest.mark.parametrize("name", ["control", "ansi", "title", "bidi", "lines", "long", "surrogate"])
def test_a_model_of_such_a_name_is_refused_in_one_plain_line(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_model(f"openai:{TEXTS[name]}@http://127.0.0.1:1/v1")
    assert_tame(str(refused.value))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 5000


@pytest.mark.parametrize("name", ["html", "sql", "path", "links"])
def test_a_model_of_another_odd_name_has_a_folder_of_its_own(name: str, tmp_path: Path) -> None:
    identity = parse_model(f"openai:{TEXTS[name]}", today="2026-01-01").identity
    folder = Lake(tmp_path).folder("episodes", benchmark="codeif", model=identity.label)
    assert folder.parent.parent == tmp_path / "episodes"
    assert folder.parent.parent.resolve() == folder.resolve().parent.parent


def test_a_question_of_any_text_reaches_the_endpoint() -> None:
    with model_server() as server:
        for text in TEXTS.values():
            complete(server, ask(text))
    sent = [body["messages"][0]["content"] for body in server.bodies]
    assert sent == list(TEXTS.values())

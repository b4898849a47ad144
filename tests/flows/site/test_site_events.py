"""The site marks what became worse: on its first page, on nights, comparisons and the histories of
families.
"""

import re
from pathlib import Path

import pytest

from schemas.errors import UnknownName, UsageError
from tasks.storage.home import Home
from tests.flows.parley_command import parley
from tests.warehouse.comparison.checkpoints import (
    FAMILY,
    checkpoint,
    empty_lake,
    passing,
    rule,
    write,
)
from tests.warehouse.small_run import IA
from warehouse.comparison.named_pairs import pairs_named
from warehouse.publication.publish import publish

pytestmark = pytest.mark.slow
N_PASSED = (19, 18, 17, 16, 15, 3)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Six checkpoints: a slow decline, and a cliff at its end."""
    made = Home(empty_lake(tmp_path_factory.mktemp("events") / "home"))
    for night, n_passed in enumerate(N_PASSED, start=1):
        run = checkpoint(made.path, f"step-{night}")
        write(run, passing(n_passed), night)
        rule(run)
    publish(made.path, directions={IA: "higher"})
    return made


@pytest.fixture(scope="module")
def site(home: Home) -> Path:
    out = home.path.parent / "pages"
    done = parley(
        home.path,
        "site",
        "--out",
        out,
        "--compare",
        "step-1..vllm:/models/step-6",
        "--compare",
        "step-1:step-3",
    )
    assert done.code == 0, done.err
    return out


def test_the_first_page_marks_nights_comparisons_and_families_with_a_loss(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    marked = [
        line for line in re.findall(r"<li>.*?</li>", index, re.DOTALL) if 'class="event"' in line
    ]
    assert len(marked) == 3
    assert re.search(r"nights/night-06\.html.*1 regression</strong>", marked[0])
    assert re.search(r"step-5 → vllm:/models/step-6.*1 regression</strong>", marked[1])
    assert re.search(rf"history/{FAMILY}\.html.*1 decline</strong>", marked[2])


def test_a_night_lists_its_events_with_their_pages(site: Path) -> None:
    page = (site / "nights" / "night-06.html").read_text(encoding="utf-8")
    rows = re.findall(
        r'<strong class="event (\w+)">.*?<a href="\.\./((?:compared|history)/[^"]+)">',
        page,
        re.DOTALL,
    )
    assert {event for event, _ in rows} == {"regression", "trend"}
    assert all((site / link).is_file() for _, link in rows)
    assert "Events" not in (site / "nights" / "night-02.html").read_text(encoding="utf-8")


def test_a_history_has_its_chart_trend_and_events(site: Path) -> None:
    page = (site / "history" / f"{FAMILY}.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    [line] = re.findall(r'<polyline points="([^"]+)"', page)
    assert len(line.split()) == len(N_PASSED)
    assert re.search(r"Trend: -0\.0\d+ per checkpoint over 6 checkpoints \(tau -1\.00", page)
    assert '<g class="mark trend">' in page
    assert "<th>judge drift</th>" in page


def test_pairs_are_named_as_for_compare(site: Path, home: Home) -> None:
    names = {path.name for path in (site / "compared").glob("*.html")}
    runs = [checkpoint(home.path, f"step-{n}").run_id for n in range(1, 7)]
    assert pairs_named(home.path, "vllm:/models/step-1:vllm:/models/step-6") == [(runs[0], runs[5])]
    assert pairs_named(home.path, f"{runs[1][:8]}..step-4") == [(runs[1], runs[3])]
    assert {f"{runs[0][:12]}-{runs[n][:12]}.html" for n in (2, 5)} <= names
    with pytest.raises(UnknownName, match="step-7"):
        pairs_named(home.path, "step-1..step-7")
    with pytest.raises(UsageError, match=r"OLD\.\.NEW"):
        pairs_named(home.path, "step-1")

"""The pages of `parley site` as Chromium shows them, from disk: no complaint, nothing of a model's runs. Screenshots are kept."""

import re
import shutil
from pathlib import Path

import pytest

from tests.fixtures.browser import BROWSER, complaints, shown
from tests.flows.site.test_site import site

__all__ = ["site"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed: apt install chromium"),
]


def one_of_each(site: Path) -> dict[str, Path]:
    """A page of each kind; of dialogues and pairs, one with hostile texts."""
    kinds = {"index": site / "index.html"}
    for kind in ("runs", "nights", "compared", "history", "curves"):
        for path in sorted((site / kind).glob("*.html"))[:1]:
            kinds[kind] = path
    for kind, pattern in (("dialogue", "dialogues/*/*.html"), ("pair", "compared/*/*.html")):
        kinds[kind] = next(path for path in sorted(site.glob(pattern)) if "OWNED" in path.read_text(encoding="utf-8"))
    return kinds


def test_every_kind_of_page_opens_from_disk_without_a_complaint(site: Path, tmp_path: Path) -> None:
    kinds = one_of_each(site)
    assert {"index", "runs", "nights", "compared", "dialogue", "pair", "curves"} <= kinds.keys()
    for kind, path in kinds.items():
        for name, width, dark in (("light", 1300, False), ("dark-narrow", 420, True)):
            picture = tmp_path / f"{kind}-{name}.png"
            assert complaints(path.as_uri(), picture, width, dark=dark) == []
            assert picture.stat().st_size > 3_000
    print(f"screenshots: {tmp_path}")


def test_the_script_of_ours_runs_and_none_of_a_model_does(site: Path, tmp_path: Path) -> None:
    kinds = one_of_each(site)
    board = shown(kinds["index"].as_uri(), tmp_path / "index.png")
    assert board.count("<select>") == 5
    assert "<th><button>mean</button></th>" in board
    for kind in ("dialogue", "pair"):
        document = shown(kinds[kind].as_uri(), tmp_path / f"{kind}.png")
        assert "<title>OWNED" not in document
        assert "<img" not in document
        assert '<pre class="code" tabindex="0">' in document


def column(document: str, at: int) -> list[str]:
    """A column of a page's first table, of the rows that are not hidden."""
    body = document.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [row for row in re.findall(r"<tr[^>]*>.*?</tr>", body, re.DOTALL) if not row.startswith("<tr hidden")]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)[at] for row in rows]
    return [re.sub(r"<[^>]*>", "", cell).strip() for cell in cells]


def test_the_leaderboard_sorts_and_filters_and_puts_what_is_missing_last(site: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(site, tmp_path / "pages"))
    by_mean = 'for (const b of document.querySelectorAll("th button")) if (b.textContent === "mean") { b.click(); CLICKS }'
    chosen = 'const model = document.querySelectorAll("select")[2]; model.value = "openai:alpha";'
    choose = f'{chosen} model.dispatchEvent(new Event("change"))'
    script = (copy / "site.js").read_text(encoding="utf-8")
    (copy / "site.js").write_text(f"{script}\n{by_mean.replace('CLICKS', '')};{choose}", encoding="utf-8")
    document = shown((copy / "index.html").as_uri(), tmp_path / "sorted.png")
    means = column(document, 5)
    known = [float(mean) for mean in means if mean != "–"]
    assert {name.partition(" (")[0] for name in column(document, 3)} == {"openai:alpha"}
    assert len(set(column(document, 3))) == 2  # two runs, told apart
    assert len(set(known)) > 2
    assert known == sorted(known)
    assert means[len(known) :] == ["–"] * (len(means) - len(known))
    (copy / "site.js").write_text(f"{script}\n{by_mean.replace('CLICKS', 'b.click()')};{choose}", encoding="utf-8")
    down = column(shown((copy / "index.html").as_uri(), tmp_path / "down.png"), 5)
    assert down[: len(known)] == means[: len(known)][::-1]
    assert down[len(known) :] == means[len(known) :]


def test_a_page_that_complains_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<title>x</title><script>document.title = 'OWNED'; nothing()</script>", encoding="utf-8")
    assert "<title>OWNED" in shown(page.as_uri(), tmp_path / "page.png")
    assert "nothing is not defined" in str(complaints(page.as_uri(), tmp_path / "page.png", 500))

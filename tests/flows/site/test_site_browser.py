"""The pages of `parley site` as Chromium shows them, from disk: no complaint, nothing of a model's
runs. Screenshots are kept.
"""

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
        kinds[kind] = next(
            path
            for path in sorted(site.glob(pattern))
            if "OWNED" in path.read_text(encoding="utf-8")
        )
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
    assert 'class="pick"' in board
    assert "instruction accuracy (IA)</button></th>" in board
    for kind in ("dialogue", "pair"):
        document = shown(kinds[kind].as_uri(), tmp_path / f"{kind}.png")
        assert "<title>OWNED" not in document
        assert "<img" not in document
        assert '<pre class="code" tabindex="0">' in document


def test_a_page_that_complains_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<title>x</title><script>document.title = 'OWNED'; nothing()</script>", encoding="utf-8"
    )
    assert "<title>OWNED" in shown(page.as_uri(), tmp_path / "page.png")
    assert "nothing is not defined" in str(complaints(page.as_uri(), tmp_path / "page.png", 500))

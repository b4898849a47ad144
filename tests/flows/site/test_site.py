"""`parley site` on a lake of three published runs and a withheld one; texts of models and data try to leave their place."""

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest

from schemas.episode import Episode
from schemas.run import ModelIdentity, Provider
from schemas.verdict import TestVerdict
from tasks.planning.publishing import publish_to_warehouse
from tasks.storage.home import Home
from tests.flows.parley_command import parley
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import Run, Value

HOSTILE = """</script></pre></code><img src=x onerror="document.title='OWNED'"><script>document.title='OWNED'</script>
```py"onmouseover="document.title='OWNED'
'''</code><svg/onload=document.title='OWNED'>
```
{{ 7 * 191 }} {% raw %} \x1b[31m \u202eevil <a href="javascript:document.title='OWNED'">x</a>"""


class HostileRun(Run):
    """Its answers, errors and test output are markup."""

    def episode(self, *arguments: object, **more: object) -> Episode:
        made = super().episode(*arguments, **more)  # pyright: ignore[reportArgumentType]
        steps = [one.model_copy(update={"content": f"{HOSTILE}\n{one.turn}"}) for one in made.steps]
        return made.model_copy(update={"steps": tuple(steps), "error": HOSTILE})

    def verdicts(self, values: Mapping[tuple[str, int, int], Mapping[str, Value]]) -> list[TestVerdict]:
        made = super().verdicts(values)
        return [one.model_copy(update={"detail": HOSTILE, "instruction_id": "<b>x"}) for one in made]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = SmallLake(tmp_path_factory.mktemp("site") / "home").write_all()
    name = "<img src=x onerror=alert(1)>"
    hostile = HostileRun(lake.home, ModelIdentity(provider=Provider.RECORDED, name=name, weights_digest="c" * 32), samples=1)
    lake.write_model(hostile.subject, None, None)
    lake.write_simple(hostile)
    hostile.write_record(night_id="night-that-was-killed")
    publish_to_warehouse(Home.at(lake.home))
    out = lake.home.parent / "pages"
    done = parley(lake.home, "site", "--out", out, "--compare", f"{lake.alpha_2.run_id}:{hostile.run_id}")
    assert done.code == 0, done.err
    assert "4 runs and 15 dialogues" in done.out
    return out


class Page(HTMLParser):
    """Tags, links and ids of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    for path in sorted(site.rglob("*.html")):
        yield path, Page(path)


def test_no_text_becomes_markup_on_any_page(site: Path) -> None:
    seen = 0
    for path, page in pages(site):
        assert {tag for tag, _ in page.tags} & {"img", "b", "iframe", "object", "embed", "form", "base"} == set(), path
        assert [attrs for tag, attrs in page.tags if tag == "script"] == [
            {"src": f"{'../' * (len(path.relative_to(site).parts) - 1)}site.js", "defer": None}
        ]
        names = {name for _, attrs in page.tags for name in attrs}
        assert not [name for name in names if name.startswith("on") or name == "style"], path
        text = "".join(page.texts)
        assert "\x1b" not in text
        assert "\u202e" not in text
        seen += "OWNED" in text
    assert seen >= 3


def test_each_page_forbids_all_scripts_but_ours(site: Path) -> None:
    for path, page in pages(site):
        policy = [attrs.get("content") for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
        assert len(policy) == 1, path
        assert "default-src 'none'; script-src 'self'" in str(policy[0])


def test_each_link_leads_to_a_page_or_place_of_the_site(site: Path) -> None:
    for path, page in pages(site):
        links = [str(attrs["href"]) for tag, attrs in page.tags if tag in ("a", "link") and "href" in attrs]
        assert links
        ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
        for link in links:
            target, _, place = link.partition("#")
            assert ":" not in link
            assert (path.parent / target).is_file() if target else place in ids, (path, link)


def test_the_leaderboard_shows_n_unscored_and_intervals(site: Path) -> None:
    rows = re.findall(r"<tr><td>.*?</tr>", (site / "index.html").read_text(encoding="utf-8"), re.DOTALL)
    alpha = [row for row in rows if "openai:alpha" in row and "<td>instruction_accuracy</td>" in row]
    assert len(alpha) == 2  # two runs
    assert any("<td>1</td>" in row or "<td>2</td>" in row for row in alpha)
    assert not any("gamma" in row for row in rows)  # withheld


def test_a_dialogue_shows_its_tests_the_difference_and_the_next_failure(site: Path) -> None:
    texts = [page.read_text(encoding="utf-8") for page in sorted(site.glob("dialogues/*/*.html"))]
    failing = [text for text in texts if '<span class="outcome failed">' in text]
    assert failing
    assert any('<span class="add">+answer 2 of attempt 1</span>' in text for text in failing)
    assert any(re.search(r'<a href="\w+\.html" accesskey="m">failure ›</a>', text) for text in texts)
    assert any("execution feedback" in text for text in texts)


def test_a_curve_shows_each_run_with_its_intervals_and_numbers(site: Path) -> None:
    drawn = [path.read_text(encoding="utf-8") for path in sorted((site / "curves").glob("*.html"))]
    assert drawn
    assert all("<circle" in text for text in drawn)
    assert any("<polyline" in text for text in drawn)
    assert any("<td>openai:alpha</td><td>2</td>" in text for text in drawn)


def test_a_comparison_has_both_transcripts(site: Path) -> None:
    [folder] = [path for path in (site / "compared").iterdir() if path.is_dir()]
    both = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.html"))]
    assert both
    assert all("answer 1 of attempt" in text and "OWNED" in text for text in both)


def test_the_same_site_comes_out_again_and_nothing_else_is_replaced(site: Path, tmp_path: Path) -> None:
    home = site.parent / "home"
    again = tmp_path / "again"
    for _ in range(2):
        assert parley(home, "site", "--out", again).code == 0
    assert (again / "index.html").is_file()
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("x", encoding="utf-8")
    refused = parley(home, "site", "--out", foreign)
    assert refused.code == 2
    assert "did not write" in refused.err
    assert [path.name for path in foreign.iterdir()] == ["thesis.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "mine"]
    assert parley(home, "site", "--out", tmp_path / "x", "--compare", "nothing:none").code == 2

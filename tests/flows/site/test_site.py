"""`parley site` on a lake of three published runs and a withheld one; texts of models and data try
to leave their place.
"""

import json
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from flows.orchestration.artifacts import _further
from flows.site.beyond_runs import write_comparisons
from flows.site.target import MANIFEST, SiteTarget, _file_system, write_to_target
from schemas.episode import Episode
from schemas.errors import ConfigError, UsageError
from schemas.run import ModelIdentity
from schemas.verdict import TestVerdict
from tasks.planning.reporting.publishing import publish_to_warehouse
from tasks.storage.home import Home
from tests.flows.parley_command import parley
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import Run, Value
from warehouse.checks.docs import _index
from warehouse.checks.rule import CheckContext
from warehouse.site_rows import SiteRows

pytestmark = pytest.mark.slow

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

    def verdicts(
        self, values: Mapping[tuple[str, int, int], Mapping[str, Value]]
    ) -> list[TestVerdict]:
        made = super().verdicts(values)
        return [
            one.model_copy(update={"detail": HOSTILE, "instruction_id": "<b>x"}) for one in made
        ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = SmallLake(tmp_path_factory.mktemp("site") / "home").write_all()
    name = "<img src=x onerror=alert(1)>"
    hostile = HostileRun(
        lake.home, ModelIdentity(provider="recorded", name=name, weights_digest="c" * 32), samples=1
    )
    lake.write_model(hostile.subject, None, None)
    lake.write_simple(hostile)
    hostile.write_record(night_id="night-that-was-killed")
    publish_to_warehouse(Home.at(lake.home))
    out = lake.home.parent / "pages"
    done = parley(
        lake.home, "site", "--out", out, "--compare", f"{lake.alpha_2.run_id}:{hostile.run_id}"
    )
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
        assert {tag for tag, _ in page.tags} & {
            "img",
            "b",
            "iframe",
            "object",
            "embed",
            "form",
            "base",
        } == set(), path
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
        policy = [
            attrs.get("content")
            for tag, attrs in page.tags
            if attrs.get("http-equiv") == "Content-Security-Policy"
        ]
        assert len(policy) == 1, path
        assert "default-src 'none'; script-src 'self'" in str(policy[0])


def test_each_link_leads_to_a_page_or_place_of_the_site(site: Path) -> None:
    for path, page in pages(site):
        links = [
            str(attrs["href"])
            for tag, attrs in page.tags
            if tag in ("a", "link") and "href" in attrs
        ]
        assert links
        ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
        for link in links:
            target, _, place = link.partition("#")
            assert ":" not in link
            assert (path.parent / target).is_file() if target else place in ids, (path, link)


def test_a_dialogue_shows_its_tests_the_difference_and_the_next_failure(site: Path) -> None:
    texts = [page.read_text(encoding="utf-8") for page in sorted(site.glob("dialogues/*/*.html"))]
    failing = [text for text in texts if '<span class="outcome failed">' in text]
    assert failing
    assert any('<span class="add">+answer 2 of attempt 1</span>' in text for text in failing)
    assert any(
        re.search(r'<a href="\w+\.html" accesskey="m">failure ›</a>', text) for text in texts
    )
    assert any("execution feedback" in text for text in texts)


def test_a_curve_shows_each_run_with_its_intervals_and_numbers(site: Path) -> None:
    drawn = [path.read_text(encoding="utf-8") for path in sorted((site / "curves").glob("*.html"))]
    assert drawn
    assert all("<circle" in text for text in drawn)
    assert any("<polyline" in text for text in drawn)
    assert any(re.search(r"<td>openai:alpha \(\w{12}\)</td><td>2</td>", text) for text in drawn)


def test_a_curve_has_the_n_of_its_own_measure(site: Path) -> None:
    text = (site / "curves" / "codeif_turns.html").read_text(encoding="utf-8")
    assert "<figcaption>instruction accuracy (IA) by turn (instruction given)" in text
    assert "<figcaption>instruction accuracy (IA) by instruction strategy" in text
    [all_ia, all_ca] = (
        re.findall(
            r"<figure><figcaption>"
            + name
            + r" by turn \(instruction given\)<br><small>codeif.static · v9 · L1<.*?</figure>",
            text,
            re.DOTALL,
        )
        for name in (r"instruction accuracy \(IA\)", r"conversation accuracy strict \(CA\)")
    )
    alpha = r"<tr><td>openai:alpha \(\w{12}\)</td><td>2</td>.*?<td>(\d+)</td><td>(\d+)</td></tr>"
    assert re.findall(alpha, all_ia[0]) == [("2", "0"), ("3", "1")]
    assert re.findall(alpha, all_ca[0]) == [("2", "0"), ("3", "1")]


def test_the_dollars_of_dialogues_are_those_of_the_run_and_a_missing_price_is_none(
    site: Path,
) -> None:
    lake = SmallLake(site.parent / "home")
    with SiteRows(lake.home) as rows:
        of_dialogues = [row["usd"] for row in rows.episodes(lake.alpha_2.run_id)]
        [of_run] = rows.costs(lake.alpha_2.run_id)
        assert of_run["usd"] > 0
        assert sum(of_dialogues) == pytest.approx(of_run["usd"])
        assert [row["usd"] for row in rows.episodes(lake.beta.run_id)] == [None] * 3
    page = (site / "runs" / f"{lake.alpha_2.run_id[:12]}.html").read_text(encoding="utf-8")
    assert f"<td>{of_dialogues[0]:.6f}</td>" in page


def test_a_site_beside_the_warehouse_is_linked_from_a_night_and_from_the_checks(site: Path) -> None:
    home = Home.at(site.parent / "home")
    [commands] = _further(home, "20260101T000000")
    assert f"`PARLEY_HOME={home.path} parley site` writes pages of all runs" in commands
    folder = home.docs / "run"
    context = CheckContext(
        benchmark="b", model="m", run_id="run", checked_at="now", docs_dir=home.docs
    )
    folder.mkdir(parents=True)
    assert "Published results" not in _index(folder, context)
    assert parley(home.path, "site").code == 0
    [line, commands] = _further(home, "20260101T000000")
    assert "parley site` updates these pages. " in commands
    assert f"({(home.path / 'site' / 'index.html').as_uri()})" in line
    [link] = re.findall(r'<a href="([^"]*)">Published results</a>', _index(folder, context))
    assert (folder / link).resolve() == home.path / "site" / "index.html"


def test_the_address_of_the_site_takes_the_place_of_the_folder_beside_the_warehouse(
    site: Path,
) -> None:
    home = Home.at(site.parent / "home")
    [night] = {
        row["night_id"] for row in SiteRows(home.path).rows("select night_id from nights limit 1")
    }
    pages, commands = _further(home, night, "https://pages.test/parley/")
    assert "(https://pages.test/parley/index.html)" in pages
    assert f"(https://pages.test/parley/nights/{night}.html)" in pages
    assert (site / "nights" / f"{night}.html").is_file()
    [command] = re.findall(r"`parley ([^`]*)`", commands)
    assert parley(home.path, *command.split()).out.startswith(f"Night {night}")
    assert parley(home.path, "report", night, "--night", night).code == 2


def test_a_store_gets_the_pages_that_changed_and_loses_those_that_are_gone(site: Path) -> None:
    from fsspec.core import url_to_fs

    home = Home.at(site.parent / "home")
    target = SiteTarget(url="https://pages.test/parley", target="memory://bucket/pages")
    write_to_target(home, target)
    fs, root = url_to_fs("memory://bucket/pages")

    def shown() -> dict[str, bytes]:
        return {
            name.removeprefix(f"{root}/"): fs.cat_file(name)
            for name in fs.find(root)
            if not name.endswith(MANIFEST)
        }

    own = home.path / "site"
    written = {
        path.relative_to(own).as_posix(): path.read_bytes()
        for path in own.rglob("*")
        if path.is_file()
    }
    assert shown() == written
    assert len(written) > 20
    fs.pipe(f"{root}/index.html", b"changed by somebody")
    fs.pipe(f"{root}/of-another.txt", b"not ours")
    digests = json.loads(fs.cat_file(f"{root}/{MANIFEST}"))
    fs.pipe(f"{root}/runs/gone.html", b"of a run that is not published any more")
    fs.pipe(
        f"{root}/{MANIFEST}",
        json.dumps(digests | {"runs/gone.html": "x", "index.html": "y"}).encode(),
    )
    counts = write_to_target(home, target)
    assert counts["runs"] == 4
    assert shown() == written | {"of-another.txt": b"not ours"}


def test_a_folder_is_written_to_as_it_is(site: Path, tmp_path: Path) -> None:
    home = Home.at(site.parent / "home")
    for place in (str(tmp_path / "plain"), (tmp_path / "url").as_uri()):
        write_to_target(home, SiteTarget(url=place))
    assert all((tmp_path / name / "index.html").is_file() for name in ("plain", "url"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="did not write"):
        write_to_target(home, SiteTarget(url=str(tmp_path / "mine")))


@pytest.mark.parametrize(
    "given",
    [{"url": "https://me:secret@pages.test"}, {"url": "u", "target": "s3://k:secret@bucket"}],
)
def test_an_address_that_messages_show_holds_no_password(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="a user name or password"):
        SiteTarget.model_validate(given)
    with pytest.raises(ConfigError, match="cannot be written to 'nosuch://place'"):
        _file_system("nosuch://place")


def test_two_runs_that_look_alike_are_told_apart(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    lake = SmallLake(site.parent / "home")
    for run in (lake.alpha_1, lake.alpha_2):
        assert f">openai:alpha ({run.run_id[:12]})</a>" in index
        page = (site / "runs" / f"{run.run_id[:12]}.html").read_text(encoding="utf-8")
        assert f"<dt>samples</dt><dd>{run.samples}</dd>" in page
        assert "temperature=0.0" in page
    assert ">recorded:beta</a>" in index


def test_only_the_latest_night_and_what_is_asked_for_have_dialogues_side_by_side(
    site: Path, tmp_path: Path
) -> None:
    home = site.parent / "home"
    lake = SmallLake(home)
    old, new = lake.beta.run_id, lake.alpha_1.run_id
    compared = [
        {
            "run_id": run,
            "other_run_id": other,
            "night_id": night,
            "against": "predecessor",
            "metric": "m",
        }
        for run, other, night in ((new, old, "night-2"), (old, lake.alpha_2.run_id, "night-1"))
    ]
    nothing = dict.fromkeys(
        (
            "other_mean",
            "mean",
            "difference",
            "ci_low",
            "ci_high",
            "q_value",
            "night_q",
            "n_problems",
            "event",
            "undefined_because",
        )
    )
    with SiteRows(home) as rows:
        read = rows.rows

        def with_comparisons(sql: str, **parameters: object) -> list[dict[str, Any]]:
            if "comparisons.night_id" in sql:
                return [{"night_id": "night-2"}]
            return (
                [one | nothing for one in compared]
                if "from comparisons" in sql
                else read(sql, **parameters)
            )

        rows.rows = with_comparisons  # pyright: ignore[reportAttributeAccessIssue]
        named = {one["name"]: one["n_changed"] for one in write_comparisons(tmp_path, rows, (), {})}
        earlier = f"{lake.alpha_2.run_id[:12]}-{old[:12]}"
        latest = f"{old[:12]}-{new[:12]}"
        assert named[earlier] is None
        assert named[latest]
        assert (tmp_path / "compared" / latest).is_dir()
        assert not (tmp_path / "compared" / earlier).exists()
        page = (tmp_path / "compared" / f"{earlier}.html").read_text(encoding="utf-8")
        assert "<td>m</td>" in page
        assert f"--compare {lake.alpha_2.run_id[:12]}:{old[:12]}" in page
        asked = write_comparisons(tmp_path, rows, [(lake.alpha_2.run_id, old)], {})
        assert {one["name"]: one["n_changed"] for one in asked}[earlier]


def test_tables_of_another_version_are_a_message_that_names_the_remedy(site: Path) -> None:
    with SiteRows(site.parent / "home") as rows, pytest.raises(UsageError, match="parley publish"):
        rows.rows("select a_column_of_another_version from runs")


def test_a_comparison_has_both_transcripts(site: Path) -> None:
    [folder] = [path for path in (site / "compared").iterdir() if path.is_dir()]
    both = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.html"))]
    assert both
    assert all("answer 1 of attempt" in text and "OWNED" in text for text in both)


def test_the_same_site_comes_out_again_and_nothing_else_is_replaced(
    site: Path, tmp_path: Path
) -> None:
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

"""A build's plan and its folder: what its id holds, what is refused, what is never replaced."""

import csv
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError, ParleyError, UnknownName, UsageError
from tasks.benchmarks import registry
from tasks.benchmarks.advanced import Constructed, Review
from tasks.language import model_spec
from tasks.language.access import ModelAccess
from tasks.planning.builds.build_plan import BuildPlan, plan_build
from tasks.planning.builds.built_folder import require_place, review_sheet, write_built
from tasks.planning.participants import access
from tasks.planning.request import BuildRequest, ModelRequest
from tasks.storage.home import Home
from tests.tasks.benchmarks.constructed import BENCHMARK, PAIRS

WHAT = "constructed-pairs"
SPEC = "openai:m@http://127.0.0.1:9/v1"
MADE = Constructed({"a.jsonl": "{}\n"}, Review(("id", "said"), [("1", "yes")]))


@pytest.fixture(autouse=True)
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "constructions", lambda: {WHAT: (BENCHMARK, PAIRS)})


def plan(home: Path, revision: str | None = "1", **changes: Any) -> BuildPlan:
    model = ModelRequest(spec=SPEC, revision=revision)
    asked = {
        "what": WHAT,
        "roles": {"model": model, "judge": model},
        "dataset_version": "sample",
        "out": str(home / "out"),
    }
    return plan_build(BuildRequest.model_validate(asked | changes), Home(home))


def test_the_id_holds_models_and_options_but_no_address_limit_or_concurrency(
    tmp_path: Path,
) -> None:
    elsewhere = ModelRequest(spec="openai:m@http://127.0.0.1:10/v1", revision="1")
    same = plan(
        tmp_path,
        roles={"model": elsewhere, "judge": elsewhere},
        limit=1,
        concurrency=3,
        replace=True,
    )
    assert same.build_id == plan(tmp_path).build_id
    assert len(same.staged.problems) == 1
    assert same.estimate == {"model": 2, "judge": 2}
    assert plan(tmp_path, options={"pairs": "2"}).build_id == plan(tmp_path).build_id
    assert (
        len(
            {
                plan(tmp_path).build_id,
                plan(tmp_path, "2").build_id,
                plan(tmp_path, options={"pairs": "3"}).build_id,
            }
        )
        == 3
    )


def test_an_unfinished_build_goes_on_after_midnight_and_a_finished_one_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = plan(tmp_path, None)
    begun.note_begun()

    def parsed_later(text: str, **given: str | None) -> ModelAccess:
        return model_spec.parse_model(text, **given | {"today": "2031-01-01"})

    monkeypatch.setattr(access, "parse_model", parsed_later)
    assert plan(tmp_path, None).build_id == begun.build_id
    assert plan(tmp_path, "1").build_id != begun.build_id
    begun.note_finished()
    assert plan(tmp_path, None).build_id != begun.build_id


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"what": "constructed-pears"}, UnknownName, "known: constructed-pairs"),
        (
            {"roles": {"model": ModelRequest(spec=SPEC)}},
            ConfigError,
            r"its role 'judge' \(rates them\)\. Name it with --judge SPEC",
        ),
        (
            {"roles": {"cook": ModelRequest(spec=SPEC)}},
            UnknownName,
            "'cook' of .*; known: judge, model",
        ),
        ({"options": {"pairs": "9"}}, ConfigError, "must be one of 2, 3"),
        (
            {"embedder": ModelRequest(spec=SPEC)},
            ConfigError,
            "constructed-pairs uses no vectors",
        ),
        ({"sandbox": "box"}, UnknownName, "'box'"),
    ],
)
def test_a_mistake_is_said_before_anything_is_asked(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        plan(tmp_path, **changes)


def test_a_build_replaces_its_own_files_and_never_those_that_a_person_changed(
    tmp_path: Path,
) -> None:
    own, other, out = plan(tmp_path), plan(tmp_path, "2"), tmp_path / "out"
    assert write_built(own, MADE) == ("a.jsonl", "review.csv", "build.json")
    require_place(own)
    write_built(own, MADE)
    with pytest.raises(UsageError, match="replace the files with --force"):
        require_place(other)
    write_built(plan(tmp_path, "2", replace=True), MADE)
    (out / "review.csv").write_text("id,said\n1,no!\n")
    for asked in (other, plan(tmp_path, "2", replace=True)):
        with pytest.raises(UsageError, match=r"'review\.csv', which this build did not create"):
            write_built(asked, MADE)
    assert (out / "review.csv").read_text() == "id,said\n1,no!\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "name", ["../a", "b/a", ".a", "", "a\n", "review.csv", "build.json", "x" * 201]
)
def test_files_have_plain_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParleyError, match="the construction returned a file"):
        write_built(plan(tmp_path), Constructed({name: ""}, Review((), [])))


def test_hostile_text_in_the_sheet_is_no_formula_and_breaks_no_row() -> None:
    said = [
        "=cmd|' /C calc'!A0",
        "+1",
        "@x",
        '"quoted", and so on',
        "two\nlines",
        "\x1b[31mred\x00",
        "half \ud800",
        "\t=1",
    ]
    sheet = review_sheet(
        Review(("text", "number", "flag", "none"), [(text, -1.5, True, None) for text in said])
    )
    rows = list(csv.reader(sheet.decode("utf-8").splitlines(keepends=True)))
    assert [row[0] for row in rows[1:]] == [
        "'=cmd|' /C calc'!A0",
        "'+1",
        "'@x",
        '"quoted", and so on',
        "two\nlines",
        "[31mred",
        "half ",
        "'\t=1",
    ]
    assert {tuple(row[1:]) for row in rows[1:]} == {("-1.5", "True", "")}
    with pytest.raises(ParleyError, match="row 1 of the review sheet has 1 cells for 2 columns"):
        review_sheet(Review(("a", "b"), [("x",)]))

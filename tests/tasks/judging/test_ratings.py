"""A file of ratings: what is kept, what is quarantined and why, and what a second import does."""

from dataclasses import replace
from pathlib import Path

import pytest

from schemas.errors import SourceUnreadable
from schemas.problem import QuarantinedRow
from schemas.verdict import Rating
from tasks.judging.ratings import COLUMNS, import_ratings
from tasks.judging.rubric import RatingScale, scales_of
from tasks.storage.home import Home
from tasks.storage.home_records import note_reviewed
from tasks.storage.parquet_store import Lake
from tests.tasks.benchmarks.judged import CLEAR, WHOLE
from tests.warehouse.small_lake import SmallLake

HEADER = ",".join(COLUMNS)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    lake = SmallLake(tmp_path / "home")
    lake.write_simple(lake.beta)
    return Home.at(lake.home)


@pytest.fixture
def episode(home: Home) -> str:
    """Of P1, which has three turns."""
    return SmallLake(home.path).beta.episode_id("P1", 0)


def write(
    home: Home, *rows: str, header: str = HEADER, name: str = "file.csv", encoding: str = "utf-8"
) -> Path:
    path = home.path / name
    path.write_text("\n".join((header, *rows)) + "\n", encoding=encoding)
    return path


def kept(home: Home) -> dict[tuple[str, int, str, str], float | str | None]:
    rows = Lake(home.lake).read("ratings", Rating)
    return {
        (row.rater, row.turn, row.rubric, row.dimension): row.label
        if row.value is None
        else row.value
        for row in rows
    }


def test_numbers_and_words_are_kept_each_in_its_place(home: Home, episode: str) -> None:
    source = write(
        home,
        f"{episode},0,clear,,ann,4.5",
        f"{episode},3,clear,tone,ann,wärm",
        encoding="utf-8-sig",
    )
    assert import_ratings(home, source).n_changed == 2
    assert kept(home) == {("ann", 0, "clear", ""): 4.5, ("ann", 3, "clear", "tone"): "wärm"}


def test_columns_may_stand_in_another_order(home: Home, episode: str) -> None:
    source = write(
        home,
        f"2,ann,clear,{episode},clarity,1",
        header="value,rater,rubric,episode_id,dimension,turn",
    )
    assert import_ratings(home, source).n_changed == 1
    assert kept(home) == {("ann", 1, "clear", "clarity"): 2.0}


def test_rows_that_are_no_ratings_are_quarantined_with_line_and_reason(
    home: Home, episode: str
) -> None:
    bad = {
        f"{'0' * 32},1,clear,,ann,1": "unknown_episode",
        f"{episode},4,clear,,ann,1": "bad_turn",
        f"{episode},-1,clear,,ann,1": "bad_turn",
        f"{episode},one,clear,,ann,1": "bad_turn",
        f'{episode},1,clear,,ann,"4,5"': "bad_number",
        f"{episode},1,clear,,ann,nan": "bad_number",
        f"{episode},1,clear,,ann,": "missing_field",
        f"{episode},1,clear,,,3": "missing_field",
        f"{episode},1,clear,,a\x07,3": "bad_name",
        f"{episode},1,clear,,ann": "wrong_columns",
    }
    good = [f"{episode},{turn},clear,,ben,{turn}" for turn in (0, 1, 2)]
    done = import_ratings(home, write(home, *bad, *good))
    assert done.file.n_input == len(bad) + 3 == len(done.file.ratings) + len(done.file.quarantined)
    rows = Lake(home.lake).read(
        "quarantine", QuarantinedRow, benchmark="ratings", dataset_version="file.csv"
    )
    assert [(row.source_line, row.reason) for row in rows] == list(enumerate(bad.values(), 2))


def test_of_equal_rows_one_is_kept_and_of_contradicting_ones_none(home: Home, episode: str) -> None:
    equal, other = (
        [f"{episode},1,clear,,ann,3"] * 2,
        [f"{episode},2,clear,,ann,{value}" for value in (3, 4)],
    )
    done = import_ratings(home, write(home, *equal, *other))
    assert [(row.source_line, row.reason) for row in done.file.quarantined] == [
        (3, "duplicate"),
        (4, "contradiction"),
        (5, "contradiction"),
    ]
    assert kept(home) == {("ann", 1, "clear", ""): 3.0}


def test_the_same_file_again_changes_nothing_and_a_corrected_one_replaces(
    home: Home, episode: str
) -> None:
    first = write(
        home, f"{episode},1,clear,,ann,3", f"{episode},2,clear,,ann,3", f"{episode},9,clear,,ann,3"
    )
    assert import_ratings(home, first).n_changed == 2
    before = {path: path.stat().st_mtime_ns for path in (home.lake / "ratings").rglob("*.parquet")}
    assert import_ratings(home, first).n_changed == 0
    assert {
        path: path.stat().st_mtime_ns for path in (home.lake / "ratings").rglob("*.parquet")
    } == before
    corrected = write(home, f"{episode},2,clear,,ann,5", f"{episode},3,clear,,ann,3")
    assert import_ratings(home, corrected).n_changed == 2
    assert kept(home) == {
        ("ann", 1, "clear", ""): 3.0,
        ("ann", 2, "clear", ""): 5.0,
        ("ann", 3, "clear", ""): 3.0,
    }
    assert (
        Lake(home.lake).read(
            "quarantine", QuarantinedRow, benchmark="ratings", dataset_version="file.csv"
        )
        == []
    )


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (
            HEADER.replace("rater", "annotator"),
            "lacks rater and has additional columns 'annotator'",
        ),
        (f"{HEADER},note", "has additional columns 'note'"),
        (f"{HEADER},turn", "has additional columns 'turn'"),
        (HEADER.replace(",", ";"), "lacks episode_id"),
        ("", "lacks episode_id"),
    ],
)
def test_another_header_is_refused_by_name(home: Home, header: str, told: str) -> None:
    with pytest.raises(SourceUnreadable, match=told):
        import_ratings(home, write(home, header=header))


def test_what_is_no_text_or_no_csv_is_refused(home: Home, episode: str) -> None:
    (home.path / "latin.csv").write_bytes(
        f"{HEADER}\n{episode},1,clear,,j\xf6rg,1\n".encode("latin-1")
    )
    with pytest.raises(SourceUnreadable, match="not UTF-8"):
        import_ratings(home, home.path / "latin.csv")
    with pytest.raises(SourceUnreadable, match="not CSV"):
        import_ratings(home, write(home, f'{episode},1,clear,,"ann"x,1'))
    with pytest.raises(SourceUnreadable, match="cannot be read"):
        import_ratings(home, home.path / "none.csv")


SHEET = "episode_id,rubric,rater,value:tone,value:accept,dialogue"


def test_a_review_sheet_gives_a_rating_for_each_value_that_is_filled_in(
    home: Home, episode: str
) -> None:
    note_reviewed(home.build("b1"), "constructed", ["review-1", "review-2"])
    note_reviewed(home.build("b1"), "constructed", ["review-3"])
    rows = (
        "review-1,look,ann,4,yes,Hi",
        'review-2,look,ann,,no,"Hi, you"',
        "review-3,look,,,,Hi",
        f"{episode},look,ann,1,yes,Hi",
    )
    done = import_ratings(home, write(home, *rows, header=SHEET))
    assert (done.file.n_input, done.file.quarantined, done.n_changed) == (5, (), 5)
    found = {
        (row.episode_id, row.dimension): row.label or row.value
        for row in Lake(home.lake).read("ratings", Rating)
    }
    assert found == {
        ("review-1", "tone"): 4.0,
        ("review-1", "accept"): "yes",
        ("review-2", "accept"): "no",
        (episode, "tone"): 1.0,
        (episode, "accept"): "yes",
    }


def test_a_review_sheet_s_bad_rows_are_quarantined(home: Home) -> None:
    note_reviewed(home.build("b1"), "constructed", ["review-1"])
    rows = ("review-1,look,,4,,Hi", "review-9,look,ann,4,,Hi", "review-1,look,ann,4")
    done = import_ratings(home, write(home, *rows, header=SHEET))
    assert [bad.reason for bad in done.file.quarantined] == [
        "missing_field",
        "unknown_episode",
        "wrong_columns",
    ]
    with pytest.raises(SourceUnreadable, match="Check rater"):
        import_ratings(home, write(home, rows[0], header=SHEET.replace("rater", "who")))


WORDS = replace(WHOLE, name="level", words=("novice", "expert"), people={"sure": (0, 1)})
RUBRICS = {rubric.name: rubric for rubric in (CLEAR, replace(WHOLE, ranges={"": (0, 1)}), WORDS)}


def test_what_a_rubric_does_not_have_is_quarantined(home: Home, episode: str) -> None:
    bad = {
        f"{episode},1,claer,clarity,ann,1": "unknown_rubric",
        f"{episode},1,clear,clearness,ann,1": "unknown_dimension",
        f"{episode},1,clear,,ann,1": "unknown_dimension",
        f"{episode},1,clear,clarity,ann,0": "out_of_range",
        f"{episode},2,clear,clarity,ann,5.5": "out_of_range",
        f"{episode},0,level,,ann,guru": "out_of_range",
        f"{episode},0,level,sure,ann,2": "out_of_range",
        f"{episode},0,whole,,ann,-1": "out_of_range",
    }
    good = [
        *(
            f"{episode},{turn},clear,clarity,ben,{value}"
            for turn, value in ((1, 1), (2, 5), (3, 2.5))
        ),
        f"{episode},0,level,,ben,novice",
        f"{episode},0,level,sure,ben,1",
        f"{episode},0,whole,,ben,0",
    ]
    done = import_ratings(home, write(home, *bad, *good), {"codeif": scales_of(RUBRICS)}.get)
    assert [(row.source_line, row.reason) for row in done.file.quarantined] == list(
        enumerate(bad.values(), 2)
    )
    assert len(done.file.ratings) == len(good)


def test_a_review_sheet_is_held_to_the_scales_that_its_build_wrote_down(home: Home) -> None:
    scales = {
        "made.review": {"tone": RatingScale((1, 5)), "accept": RatingScale(words=("yes", "no"))}
    }
    note_reviewed(home.build("b1"), "constructed", ["review-1"], scales)
    rows = [
        f"review-1,0,made.review,{what}"
        for what in ("tone,ann,4", "accept,ann,yes", "tone,ben,6", "accept,ben,maybe")
    ]
    done = import_ratings(
        home,
        write(home, *rows, "review-1,0,made.review,style,ben,1", "review-1,0,other,tone,ben,1"),
    )
    assert kept(home) == {
        ("ann", 0, "made.review", "tone"): 4.0,
        ("ann", 0, "made.review", "accept"): "yes",
    }
    reasons = [row.reason for row in done.file.quarantined]
    assert reasons == ["out_of_range", "out_of_range", "unknown_dimension", "unknown_rubric"]

"""The view of a judge's drift: what it says of the bundled judgements tonight, beside the first
night that asked them.
"""

from pathlib import Path
from typing import Any

import pytest

from schemas.verdict import JudgeDriftAnswer
from tests.warehouse.small_run import write_part
from warehouse.connect import query
from warehouse.publication.publish import publish

FIRST, SECOND, THIRD = (f"2026010{day}T020000-00aa" for day in (1, 2, 3))
UNREAD = "judge_unparsable"
Told = tuple[float | str | None, ...]


def write(
    home: Path, night: str, told: dict[int, Told], version: str = "1", rubric: str = "judged.clear"
) -> None:
    """A night's answers: of each case a clarity and a tone; None for both where the answer could
    not be read.
    """
    rows = [
        JudgeDriftAnswer(
            night_id=night,
            asked_at="2026-01-01T02:00:00Z",
            judge="openai:judge",
            revision=f"unpinned-{night[:8]}",
            rubric=rubric,
            rubric_version=version,
            case_number=case,
            dimension=dimension,
            value=said if isinstance(said, float) else None,
            label=said if isinstance(said, str) else None,
            unscored_reason=UNREAD if said is None else None,
        )
        for case, answers in told.items()
        for dimension, said in zip(("clarity", "tone"), answers, strict=True)
    ]
    write_part(home, "judge_drift_answers", rows, f"{rubric}-{version}", night_id=night)


def drift(home: Path, rubric: str = "judged.clear") -> list[tuple[Any, ...]]:
    publish(home)
    told = (
        "select night_id, rubric_version, n, n_changed, mean_shift from judge_drift where rubric "
        "= $rubric order by all"
    )
    return query(home, told, {"rubric": rubric})[1]


@pytest.mark.slow
def test_a_changed_number_word_or_silence_is_a_changed_case_and_numbers_shift(
    tmp_path: Path,
) -> None:
    """Second night: 4 -> 5 and 2 -> 2, so the shift is (1 + 0) / 2. Third night: only the first
    case has two numbers.
    """
    write(tmp_path, FIRST, {0: (4.0, "warm"), 1: (2.0, "cold"), 2: (None, None)})
    assert drift(tmp_path) == [(FIRST, "1", 3, 0, 0.0)]
    write(tmp_path, SECOND, {0: (5.0, "warm"), 1: (2.0, "warm"), 2: (None, None)})
    write(tmp_path, THIRD, {0: (1.0, "cold"), 1: (None, None), 2: (3.0, "warm")})
    assert drift(tmp_path)[1:] == [(SECOND, "1", 3, 2, 0.5), (THIRD, "1", 3, 3, -3.0)]


@pytest.mark.slow
def test_a_rubric_s_new_version_is_compared_with_its_own_first_night(tmp_path: Path) -> None:
    write(tmp_path, FIRST, {0: (4.0, "warm")})
    write(tmp_path, SECOND, {0: (1.0, "cold")}, version="2")
    assert drift(tmp_path) == [(FIRST, "1", 1, 0, 0.0), (SECOND, "2", 1, 0, 0.0)]


@pytest.mark.slow
def test_a_case_that_a_fault_kept_from_the_first_night_is_compared_with_its_own_first_answer(
    tmp_path: Path,
) -> None:
    write(tmp_path, FIRST, {0: (4.0, "warm")})
    write(tmp_path, SECOND, {0: (4.0, "warm"), 1: (2.0, "cold")})
    write(tmp_path, THIRD, {0: (4.0, "warm"), 1: (3.0, "cold")})
    assert drift(tmp_path) == [
        (FIRST, "1", 1, 0, 0.0),
        (SECOND, "1", 2, 0, 0.0),
        (THIRD, "1", 2, 1, 0.5),
    ]


@pytest.mark.slow
def test_words_alone_shift_by_no_number_rather_than_by_0(tmp_path: Path) -> None:
    write(tmp_path, FIRST, {0: ("good", "warm")}, rubric="judged.tone")
    write(tmp_path, SECOND, {0: ("bad", "warm")}, rubric="judged.tone")
    assert drift(tmp_path, "judged.tone") == [(FIRST, "1", 1, 0, None), (SECOND, "1", 1, 1, None)]

"""Nobody learns more than a setting gives: every prompt of every setting is searched for the
reference and for unseen tests.
"""

from pathlib import Path

import pytest

from schemas.episode import FEEDBACK_SETTINGS, ExecutionFeedback, FeedbackSetting, VerbalFeedback
from tests.tasks.benchmarks.convcode.spoken import (
    HIDDEN,
    REFERENCE,
    REMARKS,
    TESTS,
    THOUGHTS,
    Spoken,
    play,
)

pytestmark = pytest.mark.usefixtures("bubblewrap")

EXPERTS = [feedback for feedback in FEEDBACK_SETTINGS if feedback.verbal is VerbalFeedback.EXPERT]
NOVICES = [feedback for feedback in FEEDBACK_SETTINGS if feedback.verbal is VerbalFeedback.NOVICE]
MARKS_OF_THE_REFERENCE = ("sorted(", "REFERENCE", "known to be right", "olution")
"""`sorted(` stands in the reference code alone; the others are words of an expert's prompt and its
examples.
"""


def spoken_in(feedback: FeedbackSetting, folder: Path, **options: str) -> Spoken:
    return play(
        folder, f"live[{feedback.name}]", "novice" if feedback in NOVICES else "expert", **options
    )


def unseen(feedback: FeedbackSetting) -> tuple[str, ...]:
    """What may stand in no prompt of a setting because only the tests that it does not show hold
    it.
    """
    if feedback.execution is ExecutionFeedback.FULL:
        return ("test_case_2", "test_case_3", "clamp([1], 0, 2)", "import unittest", "def setUp")
    shown = () if feedback.execution is ExecutionFeedback.NONE else ("test_case_1", "[5, 0, 12]")
    tests = (
        *HIDDEN,
        "test_case_1",
        "test_case_2",
        "test_case_3",
        "[5, 0, 12]",
        "import unittest",
        "def setUp",
    )
    return tuple(mark for mark in tests if mark not in shown)


def hits(texts: tuple[str, ...], marks: tuple[str, ...]) -> list[str]:
    return [mark for mark in marks if any(mark in text for text in texts)]


@pytest.mark.parametrize("feedback", FEEDBACK_SETTINGS, ids=lambda feedback: feedback.name)
def test_the_subject_never_sees_the_reference_nor_a_test_that_is_not_shown(
    feedback: FeedbackSetting, tmp_path: Path
) -> None:
    texts = spoken_in(feedback, tmp_path).subject.texts
    assert len(texts) >= 2
    assert hits(texts, MARKS_OF_THE_REFERENCE) == []
    assert hits(texts, unseen(feedback)) == []


@pytest.mark.parametrize("feedback", FEEDBACK_SETTINGS, ids=lambda feedback: feedback.name)
def test_of_a_simulator_s_answer_the_answer_field_alone_reaches_the_subject(
    feedback: FeedbackSetting, tmp_path: Path
) -> None:
    spoken = spoken_in(feedback, tmp_path)
    assert hits(spoken.subject.texts, (THOUGHTS, "Reasoning:")) == []
    remarks = REMARKS["novice" if feedback in NOVICES else "expert"][: spoken.rounds - 1]
    assert bool(hits(spoken.subject.texts, remarks)) is (feedback.verbal is not VerbalFeedback.NONE)


@pytest.mark.parametrize("feedback", NOVICES, ids=lambda feedback: feedback.name)
def test_a_novice_sees_neither_the_reference_nor_a_test_that_is_not_shown(
    feedback: FeedbackSetting, tmp_path: Path
) -> None:
    texts = spoken_in(feedback, tmp_path).simulator.texts
    assert texts
    assert hits(texts, MARKS_OF_THE_REFERENCE) == []
    assert hits(texts, unseen(feedback)) == []


@pytest.mark.parametrize("feedback", EXPERTS, ids=lambda feedback: feedback.name)
def test_an_expert_sees_the_reference_in_every_request_but_no_test_that_is_not_shown(
    feedback: FeedbackSetting, tmp_path: Path
) -> None:
    asked = spoken_in(feedback, tmp_path).simulator.asked
    assert [request.turn for request in asked] == [2, 3, 4]
    for request in asked:
        assert REFERENCE.rstrip() in request.messages[-1].content
    texts = tuple(message.content for request in asked for message in request.messages)
    assert hits(texts, unseen(feedback)) == []


@pytest.mark.parametrize(
    "feedback", [f for f in FEEDBACK_SETTINGS if f.execution is ExecutionFeedback.PARTIAL], ids=str
)
def test_upstream_s_coverage_shows_no_more(feedback: FeedbackSetting, tmp_path: Path) -> None:
    spoken = spoken_in(feedback, tmp_path, coverage="upstream_first_three_methods")
    assert hits(spoken.subject.texts + spoken.simulator.texts, unseen(feedback)) == []


def test_the_search_finds_what_full_coverage_shows(tmp_path: Path) -> None:
    full = next(feedback for feedback in EXPERTS if feedback.execution is ExecutionFeedback.FULL)
    texts = spoken_in(full, tmp_path).simulator.texts
    assert hits(texts, HIDDEN) == list(HIDDEN)
    assert hits(texts, MARKS_OF_THE_REFERENCE)
    assert not hits(texts, (TESTS,))

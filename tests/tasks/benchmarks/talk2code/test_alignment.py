"""Entities and meaning of played dialogues: what is asked and embedded, and each column worked by
hand.
"""

import json
import math
from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np
import pytest

from schemas.dialog import Role
from schemas.episode import Score, UnscoredReason
from schemas.verdict import JudgeVerdict, Outcome, TestVerdict
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.contract import Played, ScoreRequest
from tasks.benchmarks.talk2code import BENCHMARK
from tasks.benchmarks.talk2code.measures import DIMENSIONS, level_is_judged, noted_entities
from tasks.metrics.intent_alignment import Counting, entity_consistency, match_densities
from tests.tasks.benchmarks.talk2code.played import STREAK, dialogue, episode, play, sample
from tests.tasks.language.quoted import quoted_talk

QUESTION, CODE = (
    "Is the goal itself enough, and is the list empty?",
    "```python\ndef longest_streak(cups, goal):\n    return 0\n```",
)
REFERENCE = dialogue(STREAK)[0].reference_code.strip("\n")
MEASURED = "interactive_measured"
K_TRUE = ["goal", "list", "Longest  Streak", "empty list"]
VECTORS = {REFERENCE: (1.0, 0.0), QUESTION: (0.6, 0.8), CODE: (0.8, 0.6)}
RATINGS = dict(zip(DIMENSIONS, (5, 4, 3, 2, 1, 3), strict=True))


def options(setting: str, **chosen: str) -> dict[str, str]:
    return {option.name: option.default for option in BENCHMARK.settings[setting].options} | chosen


def judgement(rubric: str, turn: int, dimension: str = "", **said: Any) -> JudgeVerdict:
    about = {
        "run_id": "r",
        "benchmark": "talk2code",
        "model": "m",
        "episode_id": "e",
        "sample": 0,
        "judge": "j",
    }
    place = {
        "problem_id": "python/longest_streak",
        "turn": turn,
        "rubric": rubric,
        "dimension": dimension,
        "judgement_id": "x",
    }
    return JudgeVerdict.model_validate(about | place | said)


def entities(turn: int, *names: str) -> JudgeVerdict:
    return judgement(
        "entities", turn, value=len(names), answer_json=json.dumps({"entities": names})
    )


JUDGED = (
    *(judgement("experience", 0, name, value=value) for name, value in RATINGS.items()),
    entities(0, *K_TRUE),
    entities(1, "Goal", "list", "cup"),
    entities(2, *K_TRUE),
    judgement("user_level", 0, label="novice"),
)


def scored(
    *judgements: JudgeVerdict,
    setting: str = MEASURED,
    said: tuple[str, ...] = (QUESTION, CODE),
    **chosen: str,
) -> dict[str, float | UnscoredReason | None]:
    return {
        score.metric: score.unscored_reason or score.value
        for score in rows(*judgements, setting=setting, said=said, **chosen)
    }


def by_turn(
    *judgements: JudgeVerdict, setting: str = MEASURED, said: tuple[str, ...] = (QUESTION, CODE)
) -> dict[tuple[str, int], float | UnscoredReason | None]:
    found = rows(*judgements, setting=setting, said=said)
    return {
        (score.metric, score.turn): score.unscored_reason or score.value
        for score in found
        if score.turn
    }


def rows(
    *judgements: JudgeVerdict, setting: str, said: tuple[str, ...], **chosen: str
) -> Sequence[Score]:
    problem, dialog = dialogue(STREAK)
    user = ["Yes."] * (len(said) - 1) if BENCHMARK.settings[setting].needs_simulator else []
    ending, *_ = play(setting, STREAK, *said, user=user)
    done = episode(setting, STREAK, ending)
    verdict = TestVerdict(
        run_id="r",
        benchmark="talk2code",
        model="m",
        episode_id="e",
        problem_id=problem.problem_id,
        sample=0,
        turn=max(1, len(said)),
        instruction_id="base",
        outcome=Outcome.FAILED,
        sandbox="zygote",
        n_cases=6,
        n_passed=2,
    )
    request = ScoreRequest(
        problem=problem,
        sample=0,
        run_id="r",
        setting=setting,
        options=options(setting, level_sample="all", **chosen),
        played=(Played(dialog, done, (verdict,), judgements),),
        vectors={text: np.array(vector, dtype=np.float32) for text, vector in VECTORS.items()},
    )
    return BENCHMARK.scores.score(request)


def test_one_question_and_a_delivery_have_these_values_in_every_column() -> None:
    """Of the reply before the last: goal and list are right, cup is wrong, so rho is 2/3; the
    cosine is 0.6, so P is 0.8.

    EC is 3 rho^2 - 2 rho^3. ES and SS are 0 as printed: between the first n - 1 replies, one here,
    nothing changes.
    """
    rho = 2 / 3
    expected = {
        "test_case_pass_rate": 2 / 6,
        "success_rate": 0.0,
        "interaction_experience": 3.0,
        "question_design": 5,
        "cognitive_load": 4,
        "interaction_fluency": 3,
        "user_adaptability": 2,
        "communication_efficiency": 1,
        "learning_support": 3,
        "entity_consistency": 3 * rho**2 - 2 * rho**3,
        "entity_satisfaction": 0.0,
        "semantic_consistency": 0.8,
        "semantic_satisfaction": 0.0,
        "delivery_rate": 1.0,
        "user_leakage": 0.0,
        "reference_disclosure": 0.0,
        "level_kept": 1.0,
        "entity_match_density": 1.0,
        "semantic_probability": 0.9,
    }
    assert scored(*JUDGED) == pytest.approx(expected), "of the scores by turn the last one is shown"
    assert set(expected) == set(BENCHMARK.all_metrics)


def test_each_reply_has_its_density_and_probability() -> None:
    """The question names goal and list of four, and cup: rho is 2/3.

    The delivery names all: rho is 1. P as above.
    """
    assert by_turn(*JUDGED) == {
        ("entity_match_density", 1): pytest.approx(2 / 3),
        ("entity_match_density", 2): 1.0,
        ("semantic_probability", 1): pytest.approx(0.8),
        ("semantic_probability", 2): pytest.approx(0.9),
    }
    silent = judgement("entities", 1, unscored_reason="judge_unparsable")
    missing = by_turn(
        *JUDGED[:7], silent, *JUDGED[8:], entities(3, "goal"), said=(QUESTION, "", CODE)
    )
    assert missing == {
        **{("entity_match_density", turn): UnscoredReason.JUDGE_UNPARSABLE for turn in (1, 2, 3)},
        ("semantic_probability", 1): pytest.approx(0.8),
        ("semantic_probability", 2): UnscoredReason.UNDEFINED,
        ("semantic_probability", 3): pytest.approx(0.9),
    }
    assert by_turn(*JUDGED, setting="interactive") == {}


def test_the_readings_of_the_formulas_are_options() -> None:
    """With the delivery: rho rises from 2/3 to 1, P from 0.8 to 0.9; without halves the cosines 0.6
    and 0.8 are P.
    """
    all_replies = scored(*JUDGED, replies="all", changes="consistent")
    assert all_replies["entity_consistency"] == pytest.approx(1.0)
    assert all_replies["entity_satisfaction"] == pytest.approx(1 / 3)
    assert all_replies["semantic_consistency"] == pytest.approx(math.sqrt(0.8 * 0.9))
    assert all_replies["semantic_satisfaction"] == pytest.approx(math.log(0.9 / 0.8))
    of_values = scored(
        *JUDGED,
        replies="all",
        changes="consistent",
        satisfaction="probability",
        probability="clipped_cosine",
    )
    assert of_values["semantic_consistency"] == pytest.approx(math.sqrt(0.6 * 0.8))
    assert of_values["semantic_satisfaction"] == pytest.approx(0.2)
    assert scored(*JUDGED, changes="consistent")["entity_satisfaction"] is UnscoredReason.UNDEFINED


def test_a_delivery_at_once_leaves_nothing_before_it_to_measure() -> None:
    values = scored(*JUDGED[: len(DIMENSIONS) + 1], entities(1, "goal"), said=(CODE,))
    undefined = (
        "entity_consistency",
        "entity_satisfaction",
        "semantic_consistency",
        "semantic_satisfaction",
    )
    assert {values[name] for name in (*undefined, "user_leakage", "level_kept")} == {
        UnscoredReason.UNDEFINED
    }


def test_a_judgement_that_could_not_be_read_leaves_the_dialogue_unscored() -> None:
    silent = judgement("entities", 1, unscored_reason="judge_unparsable")
    values = scored(*JUDGED[:7], silent, *JUDGED[8:])
    assert (
        values["entity_consistency"]
        is values["entity_satisfaction"]
        is UnscoredReason.JUDGE_UNPARSABLE
    )
    assert values["semantic_consistency"] == pytest.approx(0.8)


def test_each_text_is_asked_about_alone_and_compared_with_the_reference() -> None:
    problem, dialog = dialogue(STREAK)
    ending, *_ = play(MEASURED, STREAK, QUESTION, "", CODE, user=["Yes.", "Well?"])
    done = episode(MEASURED, STREAK, ending)
    assert BENCHMARK.judging is not None
    asked = BENCHMARK.judging.judge_runs(
        JudgeRequest("entities", problem, dialog, done, options(MEASURED))
    )
    assert [run.turn for run in asked] == [0, 1, 3]
    assert [
        text in run.messages[0].content
        for run, text in zip(asked, (REFERENCE, QUESTION, CODE), strict=True)
    ] == [True] * 3
    whole = options(MEASURED, reference_text="statement_and_answer")
    statement = BENCHMARK.judging.judge_runs(
        JudgeRequest("entities", problem, dialog, done, whole)
    )[0]
    assert problem.prompt in statement.messages[0].content
    every = options(MEASURED, level_sample="all")
    (level,) = BENCHMARK.judging.judge_runs(
        JudgeRequest("user_level", problem, dialog, done, every)
    )
    assert quoted_talk(level.messages[0].content) == [("user", "Yes."), ("user", "Well?")]
    request = ScoreRequest(
        problem, 0, "r", MEASURED, options(MEASURED), (Played(dialog, done, ()),)
    )
    assert BENCHMARK.scores.texts_to_embed is not None
    assert list(BENCHMARK.scores.texts_to_embed(request)) == [REFERENCE, QUESTION, "", CODE]


def test_a_blank_reply_names_nothing_and_means_nothing() -> None:
    values = scored(*JUDGED, entities(3, "goal"), said=("", QUESTION, CODE))
    assert values["semantic_consistency"] is UnscoredReason.UNDEFINED
    assert isinstance(values["entity_consistency"], float)


def test_a_fourth_of_the_dialogues_has_its_user_s_level_judged() -> None:
    dialogs = [dialogue(STREAK)[1].model_copy(update={"dialog_id": f"d{n}"}) for n in range(400)]
    n = sum(level_is_judged(dialog, {"level_sample": "fourth"}) for dialog in dialogs)
    assert 70 < n < 130
    due = [BENCHMARK.due(MEASURED, options(MEASURED), dialog) for dialog in dialogs]
    assert sum((0, "level_kept") in one.scores for one in due) == n


def test_golden_dialogues_are_measured_by_notes_and_no_judge_is_asked() -> None:
    """Novice with longest_streak: {average, longest streak}, {cups, goal, ...}, {at least, goal,
    list}: 4 right, none wrong.
    """
    values = scored(*JUDGED[:6], setting="golden_measured", said=())
    assert values["entity_consistency"] == 1.0
    assert values["entity_satisfaction"] == pytest.approx((1.0 - 0.5) / 3 * 2 / 3)


def test_the_golden_sample_s_entity_consistency_by_level_is_what_the_readme_says() -> None:
    by_level: dict[str, list[float]] = {}
    for dialog in sample().dialogs:
        sets = noted_entities(dialog, {"entities": "notes"})
        assert sets is not None
        rounds = [turn.turn for turn in dialog.turns if turn.role is Role.ASSISTANT]
        densities = match_densities(sets[0], [sets[turn] for turn in rounds])
        value = entity_consistency(densities or (), Counting())
        assert value is not None
        by_level.setdefault(dict(dialog.labels)["level"], []).append(value)
    assert {level: round(mean(values), 2) for level, values in by_level.items()} == {
        "novice": 0.9,
        "intermediate": 0.81,
        "expert": 0.65,
    }

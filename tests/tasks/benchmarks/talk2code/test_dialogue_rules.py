"""The rules of written dialogues: the bundled ones, written by hand, keep them all, and each breach
is told by its name.
"""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from schemas.dialog import ExpertiseLevel
from tasks.benchmarks.talk2code.construction.dialogue_rules import (
    Brief,
    Rounds,
    Violation,
    disclosure_counts,
    read_rounds,
    violations,
)
from tests.tasks.benchmarks.talk2code.played import sample

BRIEF = Brief(
    level=ExpertiseLevel.NOVICE,
    persona="non_cs_student",
    language="python",
    names=("longest_streak",),
    problem=(
        "Return the length of the longest run of days in a row with at least `goal` cups; 0 for "
        "an empty list."
    ),
    reference=(
        "def longest_streak(a, b):\n    # one pass over all days\n    best = current = so_far = "
        "0\n    return False\n"
    ),
)
KEPT = Rounds(
    users=(
        "I keep a note of my water. How well am I doing?",
        "My longest run of good days.",
        "A day is good with at least so many cups, my goal. Call it longest_streak, in Python.",
    ),
    replies=("What would you like to see?", "When is a day good?", "Here it is."),
)


def said(users: dict[int, str] | None = None, replies: dict[int, str] | None = None) -> Rounds:
    """The kept dialogue with some texts replaced."""
    return Rounds(
        tuple((users or {}).get(place, text) for place, text in enumerate(KEPT.users)),
        tuple((replies or {}).get(place, text) for place, text in enumerate(KEPT.replies)),
    )


def test_the_bundled_dialogues_keep_all_rules_but_one_that_speaks_of_node() -> None:
    problems = {problem.problem_id: problem for problem in sample().problems}
    found: dict[str, list[str]] = {}
    for dialog in sample().dialogs:
        replies = [turn.content or "" for turn in dialog.turns if turn.role == "assistant"]
        labels, problem = dict(dialog.labels), problems[dialog.problem_id]
        replies[-1] = replies[-1].split("```")[0]
        rounds = Rounds(
            tuple(turn.content or "" for turn in dialog.turns if turn.role == "user"),
            tuple(replies),
        )
        level, names = ExpertiseLevel(labels["level"]), (labels["entry_point"],)
        brief = Brief(
            level,
            labels["archetype"],
            labels["language"],
            names,
            problem.prompt,
            problem.reference_code,
        )
        found[dialog.dialog_id] = [broken.reason for broken in violations(rounds, brief)]
    assert (len(found), {name: broken for name, broken in found.items() if broken}) == (18, {})


def test_a_dialogue_discloses_what_is_said_before_the_user_is_through() -> None:
    assert violations(KEPT, BRIEF) == ()
    assert disclosure_counts(KEPT, BRIEF) == (0, 3, 7)


@pytest.mark.parametrize(
    ("rounds", "reason"),
    [
        (said(replies={0: "```python\npass\n```"}), "early_code"),
        (
            said(replies={1: "I take best = current = so_far = 0 to begin with. What else?"}),
            "early_code",
        ),
        (said(users={1: "Like this:\ndef longest(cups):\n"}), "early_code"),
        (Rounds(KEPT.users[1:], KEPT.replies[1:]), "wrong_length"),
        (said(replies={1: "I see."}), "no_question"),
        (said(users={0: f"{KEPT.users[2]} My longest run of good days."}), "full_opening"),
        (said(users={1: "Hm, good question."}), "no_growth"),
        (
            said(users={2: "A day is good with at least so many cups, my goal. In Python."}),
            "unnamed",
        ),
        (
            said(
                users={
                    2: "A day is good with at least so many cups, my goal. Call it longest_streak."
                }
            ),
            "unnamed",
        ),
        (said(users={1: "My longest run of good days, as integers."}), "wrong_vocabulary"),
    ],
)
def test_a_broken_rule_is_told_by_its_name(rounds: Rounds, reason: str) -> None:
    assert reason in [broken.reason for broken in violations(rounds, BRIEF)]


def test_words_that_happen_to_stand_in_the_program_are_no_code() -> None:
    rounds = said(
        replies={1: "I go in one pass over all days. Should it return False without any?"}
    )
    assert violations(rounds, BRIEF) == ()


def test_a_task_that_is_hardly_told_is_not_disclosed() -> None:
    more = (
        "Beside, quarterly invoices become ledger entries, archived under seven different "
        "folders, printed monthly, never twice,"
    )
    untold = replace(
        BRIEF,
        problem=(
            f"{BRIEF.problem} {more} signed before noon, sealed with purple candle grease, "
            "posted abroad."
        ),
    )
    assert [broken.reason for broken in violations(KEPT, untold)] == ["undisclosed"]


def test_a_novice_passes_names_on_in_the_last_message_and_an_expert_speaks_as_one() -> None:
    named = said(users={2: f"{KEPT.users[2]} The tutor says it gets an array."})
    assert violations(named, BRIEF) == ()
    reasons = [
        broken.reason for broken in violations(KEPT, replace(BRIEF, level=ExpertiseLevel.EXPERT))
    ]
    assert reasons == ["wrong_vocabulary"]
    technical = said(users={1: "My longest run of good days, returned as an int."})
    assert violations(technical, replace(BRIEF, level=ExpertiseLevel.EXPERT)) == ()


def test_a_persona_has_words_of_its_own_that_it_never_says() -> None:
    told = said(users={2: f"{KEPT.users[2]} It is for my homework."})
    assert violations(told, BRIEF) == ()
    (broken,) = violations(told, replace(BRIEF, persona="product_manager"))
    assert (broken.reason, "homework" in broken.detail) == ("wrong_vocabulary", True)
    assert violations(told, replace(BRIEF, persona="nurse")) == ()


def message(role: str, text: str = "x") -> dict[str, str]:
    return {"role": role, "text": text}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I cannot.", "unreadable"),
        ('{"messages": [', "unreadable"),
        ('{"messages": [{"role": "user"}]}', "unreadable"),
        (json.dumps({"messages": []}), "no_alternation"),
        (json.dumps({"messages": [message("user"), message("user")]}), "no_alternation"),
        (
            json.dumps({"messages": [message("user"), message("assistant"), message("user")]}),
            "no_alternation",
        ),
        (json.dumps({"messages": [message("assistant"), message("user")]}), "no_alternation"),
        (json.dumps({"messages": [message("user", " "), message("assistant")]}), "unreadable"),
    ],
)
def test_an_answer_of_another_form_is_told(answer: str, reason: str) -> None:
    found = read_rounds(answer)
    assert isinstance(found, Violation)
    assert found.reason == reason


@pytest.mark.parametrize(
    "around", [lambda text: text, lambda text: f"Sure:\n```json\n{text}\n```\n"]
)
def test_a_dialogue_is_read_alone_or_in_other_text(around: Callable[[str], str]) -> None:
    answer = json.dumps({"messages": [message("user", "a"), message("assistant", "b {")]})
    assert read_rounds(around(answer)) == Rounds(("a",), ("b {",))

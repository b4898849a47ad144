"""One dialogue in parts: fences, differences, tool steps, and results of turns that nobody spoke
in.
"""

from typing import Any

import pytest

from flows.site.beyond_runs import difference, message_parts, turns_of
from flows.site.pages import file_name, number, render


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("plain", [("text", "plain", "")]),
        (
            "a\n```py\nx = 1\n```\nb",
            [("text", "a\n", ""), ("code", "x = 1\n", "py"), ("text", "b", "")],
        ),
        ("```\nnever closed", [("code", "never closed", "")]),
        ("```\na\n```\n```c++\nb\n```", [("code", "a\n", ""), ("code", "b\n", "c++")]),
        ("  \n", []),
    ],
)
def test_an_answer_in_parts(content: str, parts: list[tuple[str, str, str]]) -> None:
    assert message_parts(content) == parts


def test_a_difference_marks_each_line_and_gives_up_on_long_texts() -> None:
    assert difference("a\nb", "a\nc") == [
        ("at", "@@ -1,2 +1,2 @@"),
        ("same", " a"),
        ("del", "-b"),
        ("add", "+c"),
    ]
    assert difference("a", "a") == []
    assert difference("a\n" * 3000, "b") is None


def test_what_is_missing_is_a_dash_and_zero_is_zero() -> None:
    assert [number(None), number(0.0), number(0)] == ["–", "0.000", "0"]


def test_an_id_that_is_no_plain_word_names_a_page_by_its_digest() -> None:
    assert file_name("night-1") == "night-1"
    for hostile in ("../../etc/passwd", "a/b", "", ".", "x" * 500, "a b", '"><script>'):
        assert file_name(hostile).isalnum()


def step(
    position: int, turn: int, role: str, content: str, kind: str = "message", **more: Any
) -> dict[str, Any]:
    names = ("input_tokens", "output_tokens", "latency_s", "finish_reason", "calls", "labels")
    feedback = ("compilation_feedback", "execution_feedback", "verbal_feedback")
    row: dict[str, Any] = dict.fromkeys((*names, *feedback))
    return row | {
        "position": position,
        "turn": turn,
        "role": role,
        "content": content,
        "kind": kind,
        "n_calls": 1,
        **more,
    }


def rating(turn: int | None, value: float | None) -> dict[str, Any]:
    missing = "unreadable" if value is None else None
    shown = {
        "judge": "j",
        "rubric": "r",
        "dimension": "d",
        "label": None,
        "raw": "<b>because</b>",
        "judgement_id": "1",
    }
    return shown | {"turn": turn, "value": value, "unscored_reason": missing}


def page_of(
    steps: list[dict[str, Any]], ratings: list[dict[str, Any]], dialog_id: str = "p"
) -> str:
    turns = list(
        turns_of({"steps": steps, "test_verdicts": [], "judge_verdicts": ratings, "scores": []})
    )
    links = dict.fromkeys(("before", "after", "failure_before", "failure_after"))
    run = {"run_id": "r" * 32, "model": "m", "label": "m", "setting": "s", "dataset_version": "v"}
    names = (
        "sample",
        "stop_reason",
        "attempt",
        "started_at",
        "input_tokens",
        "output_tokens",
        "episode_id",
        "paid_by_run_id",
        "error",
    )
    episode = dict.fromkeys(names, "0") | {
        "problem_id": "p",
        "dialog_id": dialog_id,
        "error": None,
        "latency_s": 2.25,
        "usd": None,
    }
    return render(
        "dialogue",
        up="../../",
        run=run,
        episode=episode,
        links=links,
        context=("c" * 32, 3),
        turns=turns,
    )


def test_a_dialogue_says_what_it_cost_and_how_long_it_took() -> None:
    page = page_of([step(0, 1, "user", "Hello")], [])
    assert "2.2 s waited for answers · – dollars" in page


@pytest.mark.parametrize(
    ("dialog_id", "name"), [("p", "p"), ("p/novice/hobbyist", "p/novice/hobbyist"), ("7", "p · 7")]
)
def test_dialogues_of_one_problem_have_names_of_their_own(dialog_id: str, name: str) -> None:
    page = page_of([step(0, 1, "user", "Hello")], [], dialog_id)
    assert f"<h1>{name}</h1>" in page
    assert f"<title>{name} · m" in page


def test_scores_of_a_replayed_turn_stand_beside_its_answer() -> None:
    score = {"metric": "m", "instruction_id": "", "value": 1.0, "unscored_reason": None}
    parts: dict[str, list[dict[str, Any]]] = {
        "steps": [step(0, 1, "user", "Hello"), step(1, 1, "assistant", "Hi")],
        "test_verdicts": [],
        "judge_verdicts": [],
        "scores": [{**score, "turn": turn} for turn in (0, 11)],
    }
    turns = [(turn["turn"], len(turn["steps"]), len(turn["scores"])) for turn in turns_of(parts)]
    assert turns == [(1, 2, 1), (0, 0, 1)]
    parts["scores"].append({**score, "turn": 1})
    assert [turn["turn"] for turn in turns_of(parts)] == [1, 0, 11]


def test_tool_steps_are_folded_and_their_calls_are_text() -> None:
    call = {"call_id": "1", "name": "<i>edit</i>", "arguments": '{"x": "</pre><script>"}'}
    steps = [
        step(0, 1, "user", "Mend it.", verbal_feedback="no <u>"),
        step(1, 1, "assistant", "I look.", "tool_call", calls=[call]),
        step(2, 1, "user", "many lines", "observation"),
        step(3, 1, "assistant", "Done.", labels=[{"key": "<k>", "value": "<v>"}]),
    ]
    page = page_of(steps, [])
    assert (
        page.count("<details>") == 4
    )  # the call's step, the call itself, the observation, the feedback
    assert "&lt;i&gt;edit&lt;/i&gt;" in page
    assert "&lt;/pre&gt;&lt;script&gt;" in page
    assert "&lt;k&gt;: &lt;v&gt;" in page
    assert "the first 3 turns of" in page


def test_ratings_of_the_whole_dialogue_are_shown_and_a_missing_one_is_no_number() -> None:
    page = page_of(
        [step(0, 1, "user", "Hello"), step(1, 1, "assistant", "Hi")],
        [rating(0, 4.0), rating(0, None)],
    )
    assert page.index("The whole dialogue") > page.index("Turn 1")
    assert "<td>4.000</td>" in page
    assert "<td>unscored: unreadable</td>" in page
    assert page.count("&lt;b&gt;because&lt;/b&gt;") == 1


def test_the_page_of_a_talk_before_dialogues_shows_text_as_text() -> None:
    page = render(
        "context",
        up="../",
        context_id="c",
        turns=[{"role": "user", "content": "</div><script>x</script>"}],
    )
    assert "&lt;/div&gt;&lt;script&gt;" in page

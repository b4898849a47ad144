"""How the steps of a turn are shown to a reader."""

import pytest

from flows.text.transcript import SHOWN_OF_AN_END, clipped, step_text
from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall


def test_a_tool_call_shows_its_words_and_each_call() -> None:
    calls = (
        ToolCall(call_id="c1", name="run", arguments='{"argv": ["ls"]}'),
        ToolCall(call_id="c2", name="read", arguments="{}"),
    )
    step = Step(
        turn=2,
        role=Role.ASSISTANT,
        kind=StepKind.TOOL_CALL,
        content="I look.",
        calls=calls,
        latency_s=0.5,
    )
    assert step_text(step) == (
        '\n── turn 2 · assistant · tool call · 0.50 s ──\nI look.\n→ run (c1): {"argv": '
        '["ls"]}\n→ read (c2): {}'
    )
    assert step_text(step.model_copy(update={"content": ""})).splitlines()[2].startswith("→ run")


def test_an_observation_names_its_call_and_the_tree_after_it() -> None:
    step = Step(
        turn=1,
        role=Role.TOOL,
        kind=StepKind.OBSERVATION,
        content="ok",
        call_id="c1",
        tree="0123456789abcdef",
    )
    assert step_text(step) == "\n── turn 1 · tool · observation · c1 · tree 0123456789ab ──\nok"


@pytest.mark.parametrize("more", [0, 1, 9_000])
def test_the_middle_of_a_long_observation_is_left_out(more: int) -> None:
    text = "a" * SHOWN_OF_AN_END + "b" * more + "c" * SHOWN_OF_AN_END
    shown = clipped(text)
    assert (shown == text) == (more == 0)
    assert shown.startswith("a" * SHOWN_OF_AN_END)
    assert shown.endswith("c" * SHOWN_OF_AN_END)
    assert "b" not in shown
    assert (f"{more} characters left out" in shown) == (more > 0)
    message = Step(turn=1, role=Role.ASSISTANT, content=text)
    assert text in step_text(message), "a message is shown whole"


def test_a_step_shows_its_number_and_what_became_of_a_draft() -> None:
    step = Step(turn=2, role=Role.USER, kind=StepKind.ARTIFACT, content="I ran it.")
    assert step_text(step, "step 7", note="rejected draft: ran_code") == (
        "\n── step 7 · turn 2 · user · artifact · rejected draft: ran_code ──\nI ran it."
    )

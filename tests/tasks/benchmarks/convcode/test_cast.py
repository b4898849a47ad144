"""Settings, options and participants: which there are, what they need, and what a static dialog asks."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from schemas.dialog import Dialog, HistoryPolicy
from schemas.episode import FEEDBACK_SETTINGS, StopReason
from schemas.errors import ConfigError, UnknownName
from schemas.problem import SuiteKind
from schemas.run import Sampling
from schemas.verdict import ProgramVerdict
from tasks.benchmarks.convcode import BENCHMARK
from tasks.benchmarks.convcode.settings import LIVE, STATIC
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.setting import CastRequest
from tasks.dialogue.engine import Ending, Transcript, play_dialogue
from tests.tasks.benchmarks.convcode.spoken import (
    DIALOG,
    PROBLEM,
    PROMPT,
    THOUGHTS,
    Overheard,
    fenced,
    recorded,
)
from tests.tasks.dialogue.feedback_participants import report_of

NINE = (
    "live[f_c]", "live[f_c,f_v]", "live[f_c,f_v*]",
    "live[f_c,f_e]", "live[f_c,f_e,f_v]", "live[f_c,f_e,f_v*]",
    "live[f_c,f_e*]", "live[f_c,f_e*,f_v]", "live[f_c,f_e*,f_v*]",
)  # fmt: skip
FIVE = (
    "static[f_c,f_v*]",
    "static[f_c,f_e,f_v]", "static[f_c,f_e,f_v*]", "static[f_c,f_e*,f_v]", "static[f_c,f_e*,f_v*]",
)  # fmt: skip


class Reports:
    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: object = None
    ) -> ProgramVerdict:
        return report_of(code)


def request(
    setting: str, subject: Overheard, simulator: Overheard | None = None, dialog: Dialog = DIALOG
) -> CastRequest:
    options: Mapping[str, str] = dict(BENCHMARK.split_options(setting, {})[0])
    return CastRequest(
        setting, options, PROBLEM, dialog, subject, simulator, Sampling(), programs=Reports()
    )


def play(request: CastRequest) -> Ending:
    opening = Transcript(PROBLEM, request.dialog, sample=0, seed=0, turn=1)
    return asyncio.run(play_dialogue(opening, BENCHMARK.play.cast(request), lambda _: None))


def test_there_are_nine_live_settings_and_none_and_the_reference_code_and_five_static_ones() -> (
    None
):
    assert BENCHMARKS.load("convcode") is BENCHMARK
    assert tuple(BENCHMARK.settings) == ("live[none]", *NINE, "live[f_c,ground_truth]", *FIVE)
    assert tuple(LIVE.values())[1:-1] == FEEDBACK_SETTINGS
    assert tuple(STATIC) == FIVE


def test_verbal_feedback_needs_a_simulator_live_only() -> None:
    needy = [name for name, setting in BENCHMARK.settings.items() if setting.needs_simulator]
    assert needy == [name for name in NINE if "f_v" in name]
    assert all(
        set(BENCHMARK.settings[name].simulator_prompts) <= set(BENCHMARK.settings[name].prompts)
        for name in needy
    )
    assert {setting.history for setting in BENCHMARK.settings.values()} == {
        HistoryPolicy.LAST_CODE_AND_FEEDBACK
    }


@pytest.mark.parametrize("setting", [name for name in NINE if "f_v" in name])
def test_a_cast_without_the_simulator_it_needs_is_refused(setting: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--simulator"):
        BENCHMARK.play.cast(request(setting, recorded(tmp_path, "subject", {1: "x"})))


def test_options_are_offered_where_they_mean_something() -> None:
    options = {
        name: [option.name for option in setting.options]
        for name, setting in BENCHMARK.settings.items()
    }
    partial = [name for name in NINE if "f_e" in name and "f_e*" not in name]
    assert [
        name for name, known in options.items() if known == ["turns", "coverage", "extraction"]
    ] == partial
    assert [name for name, known in options.items() if known == ["extraction"]] == [
        "live[none]",
        *FIVE,
    ]
    assert BENCHMARK.split_options("live[f_c]", {}) == ((("turns", "10"),), ())
    with pytest.raises(ConfigError, match="1, 2, 3"):
        BENCHMARK.split_options("live[f_c]", {"turns": "11"})


def test_an_unknown_option_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        UnknownName,
        match=(
            r"unknown option 'turn' of convcode\.live\[f_c,f_e\]; known: turns, coverage, "
            r"extraction. Do you mean turns\?$"
        ),
    ):
        BENCHMARK.split_options("live[f_c,f_e]", {"turn": "3"})
    with pytest.raises(
        UnknownName, match=r"unknown option 'turns' of convcode\.live\[none\]; known: extraction$"
    ):
        BENCHMARK.split_options("live[none]", {"turns": "3"})


@pytest.mark.parametrize(
    ("setting", "turns", "rounds"),
    [("live[none]", None, 1), ("live[f_c]", "10", 11), ("live[f_c]", "3", 4)],
)
def test_rounds_that_are_scored(setting: str, turns: str | None, rounds: int) -> None:
    assert BENCHMARK.due(setting, {"turns": turns} if turns else {}, DIALOG).rounds == rounds


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"convcode\.live\[f_c,f_e\*,f_v\]"):
        BENCHMARK.setting("live")


def test_ten_rounds_of_feedback_are_the_most(tmp_path: Path) -> None:
    subject = recorded(
        tmp_path, "subject", {turn: fenced(f"broken = {turn}") for turn in range(1, 20)}
    )
    ending = play(request("live[f_c]", subject))
    assert ending.stop_reason is StopReason.FINISHED
    assert ending.steps[-1].turn == 11
    assert [sum(asked.turn == turn for asked in subject.asked) for turn in range(1, 12)] == [1] + [
        3
    ] * 10


def test_a_simulator_that_does_not_keep_to_the_fields_is_infra_and_nothing_it_said_is_passed_on(
    tmp_path: Path,
) -> None:
    subject = recorded(tmp_path, "subject", {1: fenced("wrong"), 2: fenced("right")})
    simulator = recorded(tmp_path, "simulator", {2: f"{THOUGHTS}, and no fields"})
    ending = play(request("live[f_c,f_v*]", subject, simulator))
    assert (ending.stop_reason, ending.permanent, len(ending.steps)) == (StopReason.INFRA, False, 2)
    assert "none of 3 answers in round 2" in (ending.error or "")
    assert THOUGHTS not in (ending.error or "")


@pytest.mark.parametrize(
    ("setting", "heard"), [("live[f_c,f_v]", "look: ```\nx\n```"), ("live[f_c,f_v*]", "look:")]
)
def test_an_expert_s_feedback_ends_where_code_begins(
    setting: str, heard: str, tmp_path: Path
) -> None:
    subject = recorded(tmp_path, "subject", {1: fenced("broken"), 2: fenced("right")})
    simulator = recorded(tmp_path, "simulator", {2: "Reasoning: r\nFeedback: look:\n```\nx\n```"})
    told = play(request(setting, subject, simulator)).steps[2].feedback
    assert told is not None
    assert (told.verbal or "").split() == heard.split()


def test_a_recorded_simulator_without_an_answer_is_infra(tmp_path: Path) -> None:
    subject, simulator = (
        recorded(tmp_path, "subject", {1: fenced("wrong")}),
        recorded(tmp_path, "simulator", {9: "x"}),
    )
    assert play(request("live[f_c,f_v*]", subject, simulator)).stop_reason is StopReason.INFRA


def test_a_simulator_s_answer_is_bounded_by_the_paper_s_and_the_run_s_limit(tmp_path: Path) -> None:
    for limit, expected in ((None, 2048), (300, 300), (9000, 2048)):
        subject, simulator = (
            recorded(tmp_path, "subject", {1: fenced("wrong")}),
            recorded(tmp_path, "simulator", {9: "x"}),
        )
        asked = request("live[f_c,f_v*]", subject, simulator)
        play(
            CastRequest(**{**vars(asked), "sampling": Sampling(temperature=0.5, max_tokens=limit)})
        )
        (said,) = simulator.asked
        assert (said.sampling.max_tokens, said.sampling.temperature) == (expected, 0.0)


def static_dialog(iteration: str, message: str) -> Dialog:
    said = DIALOG.turns[0].model_copy(update={"content": message})
    labels = (("part", "static"), ("setting", "f_c,f_v*"), ("iteration", iteration))
    return DIALOG.model_copy(update={"turns": (said, DIALOG.turns[1]), "labels": labels})


def test_a_static_dialog_is_one_request_that_says_what_was_logged(tmp_path: Path) -> None:
    subject = recorded(tmp_path, "subject", {1: "broken"})
    ending = play(
        request("static[f_c,f_v*]", subject, dialog=static_dialog("3", "logged {message}"))
    )
    assert ending.stop_reason is StopReason.FINISHED
    assert subject.texts == ("logged {message}",)
    assert ending.steps[-1].program is None


def test_iteration_0_of_a_static_dialog_asks_as_a_live_one_does(tmp_path: Path) -> None:
    static, live = (
        recorded(tmp_path, "static", {1: "right"}),
        recorded(tmp_path, "live", {1: "right"}),
    )
    play(request("static[f_c,f_v*]", static, dialog=static_dialog("0", PROMPT)))
    play(request("live[none]", live))
    assert static.texts == live.texts
    assert PROMPT in static.texts[0]


def test_settings_play_their_own_dialogs() -> None:
    static = static_dialog("3", "x")
    assert all(BENCHMARK.data.plays(name, DIALOG) for name in LIVE)
    assert not any(BENCHMARK.data.plays(name, static) for name in LIVE)
    assert [name for name in STATIC if BENCHMARK.data.plays(name, static)] == ["static[f_c,f_v*]"]
    assert not any(BENCHMARK.data.plays(name, DIALOG) for name in STATIC)

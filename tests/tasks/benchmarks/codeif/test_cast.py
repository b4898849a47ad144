"""What is said and shown: the scripted user, the histories, the prompt texts."""

import asyncio
from collections.abc import Mapping

import pytest

from schemas.dialog import Role
from schemas.episode import StopReason
from schemas.errors import ConfigError, UnknownName
from schemas.problem import SuiteKind
from schemas.run import ModelIdentity, Sampling
from schemas.verdict import ProgramVerdict
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.cast import user_texts
from tasks.benchmarks.setting import CastRequest
from tasks.dialogue.engine import Ending, Transcript, play_dialogue
from tasks.language.chat_model import ChatRequest, Completion
from tests.tasks.benchmarks.codeif.dialogues import sample

PROMPT_TEXTS = {"base": "{task}", "follow_up": "{requirement}"}


class Numbered:
    """Answers `answer n` in round n and keeps what it was asked."""

    identity = ModelIdentity(provider="control", name="numbered")

    def __init__(self) -> None:
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        return Completion(
            content=f"answer {request.turn}", finish_reason="stop", input_tokens=1, output_tokens=2
        )

    async def aclose(self) -> None:
        return None


class NoPrograms:
    """A benchmark that runs no program within its dialogues asks for none."""

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: object = None
    ) -> ProgramVerdict:
        raise AssertionError(f"{kind} program was asked for")


def play(
    options: Mapping[str, str], setting: str = "static"
) -> tuple[Ending, Numbered, tuple[str, ...]]:
    staged, model = sample(), Numbered()
    problem, dialog = staged.problems[0], staged.dialogs[0]
    request = CastRequest(setting, options, problem, dialog, model, None, Sampling(), NoPrograms())
    opening = Transcript(problem, dialog, sample=0, seed=5, turn=1)
    ending = asyncio.run(play_dialogue(opening, BENCHMARK.play.cast(request), lambda _: None))
    return ending, model, user_texts(dialog)


def shown(model: Numbered, turn: int) -> list[tuple[str, str]]:
    return [(m.role.value, m.content) for m in model.asked[turn - 1].messages]


def test_the_user_says_the_dataset_s_texts_and_then_the_dialogue_is_finished() -> None:
    ending, _, texts = play({"history": "on_policy"})
    assert ending.stop_reason is StopReason.FINISHED
    assert tuple(s.content for s in ending.steps if s.role is Role.USER) == texts
    assert texts == tuple(
        sample().problems[0].instruction(i).text for i in sample().dialogs[0].instruction_ids
    )


def test_on_policy_shows_all_that_was_said() -> None:
    _, model, texts = play({"history": "on_policy"})
    assert shown(model, 1) == [("user", texts[0])]
    assert shown(model, 3) == [
        ("user", texts[0]), ("assistant", "answer 1"),
        ("user", texts[1]), ("assistant", "answer 2"),
        ("user", texts[2]),
    ]  # fmt: skip


def test_upstream_v0_shows_the_prompts_so_far_the_base_answer_and_the_new_requirement() -> None:
    _, model, texts = play({"history": "upstream_v0"})
    assert shown(model, 1) == [("user", texts[0])]
    assert shown(model, 2) == [("user", texts[0]), ("assistant", "answer 1"), ("user", texts[1])]
    assert shown(model, 4) == [
        ("user", "\n".join(texts[:3])),
        ("assistant", "answer 1"),
        ("user", texts[3]),
    ]


def test_nothing_that_decides_an_answer_is_shown_to_the_model() -> None:
    _, model, _ = play({"history": "on_policy"})
    problem = sample().problems[0]
    everything = "\n".join(m.content for request in model.asked for m in request.messages)
    assert problem.reference_code not in everything
    assert not any(test in everything for i in problem.instructions for test in i.suite.tests)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"codeif\.static"):
        BENCHMARK.setting("nosuch")


@pytest.mark.parametrize("option", ["history", "answer_cleanup"])
def test_options_take_what_they_list(option: str) -> None:
    assert BENCHMARK.split_options("static", {}) == (
        (("history", "on_policy"),),
        (("answer_cleanup", "none"),),
    )
    with pytest.raises(ConfigError, match="upstream_v0"):
        BENCHMARK.split_options("static", {option: "upstream"})


def test_prompt_texts_are_these_and_a_change_must_raise_the_version() -> None:
    assert BENCHMARK.about.version == "1"
    assert dict(BENCHMARK.settings["static"].prompts) == PROMPT_TEXTS


def test_braces_in_a_task_are_left_alone() -> None:
    dialog = sample().dialogs[0]
    odd = dialog.turns[0].model_copy(update={"content": "Return {'a': 1} and {task}."})
    assert (
        user_texts(dialog.model_copy(update={"turns": (odd, *dialog.turns[1:])}))[0]
        == "Return {'a': 1} and {task}."
    )

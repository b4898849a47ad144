"""One judgement: how it is asked for, asked again, read, and told as rows."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from schemas.content_id import text_digest
from schemas.dialog import Role
from schemas.episode import UnscoredReason
from schemas.run import ModelIdentity, Sampling
from tasks.judging.rubric import MOST_DRIFT_CASES, Judgement, Rubric, ask_judge, id_of, verdicts_of
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, Message, prompt_text
from tasks.language.recorded_model import RecordedModel, load_recording
from tests.tasks.benchmarks.judged import CLEAR, GOOD, WHOLE

JUDGE = ModelIdentity(provider="openai", name="judge", revision="1")
ABOUT = {
    "run_id": "r",
    "benchmark": "judged",
    "model": "m",
    "episode_id": "e",
    "problem_id": "p",
    "sample": 0,
    "turn": 1,
}


@dataclass
class Scripted:
    """Answers in order, and keeps what it was asked."""

    answers: list[Completion]
    identity: ModelIdentity = JUDGE
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        return self.answers[len(self.asked) - 1]

    async def aclose(self) -> None:
        pass


def said(*contents: str) -> Scripted:
    return Scripted([Completion(text, "stop", 10, 2, 0.5, "judge-1") for text in contents])


def request_of(rubric: Rubric = CLEAR) -> ChatRequest:
    messages = rubric.with_form((Message(Role.USER, "Is it clear?"),))
    return ChatRequest(
        messages,
        Sampling(),
        0,
        "p",
        1,
        0,
        answer_schema=rubric.schema,
        rubric=f"judged.{rubric.name}",
    )


def judged(model: ChatModel, rubric: Rubric = CLEAR) -> Judgement:
    return asyncio.run(ask_judge(model, rubric, request_of(rubric), "name"))


def values(
    judgement: Judgement, rubric: Rubric = CLEAR
) -> Sequence[tuple[str, float | None, str | None, str | None]]:
    rows = verdicts_of(rubric, "openai:judge", judgement, ABOUT, is_reused=False)
    return [(row.dimension, row.value, row.label, row.unscored_reason) for row in rows]


@pytest.mark.parametrize("text", [GOOD, f"Here it is:\n```json\n{GOOD}\n```\nThat is all."])
def test_the_one_object_of_an_answer_is_read_whatever_stands_around_it(text: str) -> None:
    found = judged(said(text))
    assert values(found) == [("clarity", 4.0, None, None), ("tone", None, "warm", None)]
    assert (found.n_calls, found.input_tokens, found.latency_s, found.served_model) == (
        1,
        10,
        0.5,
        "judge-1",
    )


def test_the_judge_is_shown_the_form_of_its_answer_and_the_endpoint_gets_the_schema() -> None:
    model = said(GOOD)
    judged(model)
    assert '"clarity"' in model.asked[0].messages[-1].content
    assert model.asked[0].answer_schema == CLEAR.schema


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Rather clear.", "no JSON object"),
        (GOOD.replace("4", "9"), "clarity: Input should be less than or equal to 5"),
        (GOOD.replace('"tone": "warm"', '"mood": "warm"'), "tone: Field required"),
        ('{"reason": ', "no JSON object"),
        ("{" * 5000 + "}", "not valid JSON"),
    ],
)
def test_an_unreadable_answer_is_asked_for_again_with_the_reason(text: str, reason: str) -> None:
    model = said(text, GOOD)
    assert values(judged(model))[0] == ("clarity", 4.0, None, None)
    first, again = model.asked
    assert again.messages[: len(first.messages)] == first.messages
    assert again.messages[-2].role is Role.ASSISTANT
    assert reason in again.messages[-1].content
    assert again.seed != first.seed


def test_what_is_never_readable_is_unscored_and_every_try_is_counted() -> None:
    found = judged(said("no", "no", "no", GOOD))
    assert values(found) == [(name, None, None, "judge_unparsable") for name in ("clarity", "tone")]
    assert (found.n_calls, found.output_tokens, found.raw) == (3, 6, "no")


def test_a_refusal_is_silence_and_asked_once() -> None:
    found = judged(Scripted([Completion("", "content_filter")]))
    assert (found.n_calls, found.unscored_reason) == (1, UnscoredReason.JUDGE_SILENT)


def test_a_dimension_without_a_value_is_undefined() -> None:
    rubric = replace(WHOLE, dimensions=("", "more"))
    assert values(judged(said('{"good": true}'), rubric), rubric) == [
        ("", 1.0, None, None),
        ("more", None, None, "undefined"),
    ]


def test_a_recorded_judge_is_known_by_its_place_or_by_the_digest_of_the_prompt(
    tmp_path: Path,
) -> None:
    prompt = text_digest(prompt_text(request_of().messages))
    place = (
        '{"benchmark": "judged", "rubric": "clear", "problem_id": "p", "turn": 1, "sample": 0, '
        '"content": "by place"}'
    )
    whole = (
        '{"benchmark": "judged", "rubric": "whole", "problem_id": "p", "turn": 0, "sample": 0, '
        '"content": "of all"}'
    )
    for lines, wanted in (
        ([place, whole], "by place"),
        ([whole, f'{{"prompt": "{prompt}", "content": "by prompt"}}'], "by prompt"),
    ):
        (tmp_path / "judge.jsonl").write_text("\n".join(lines))
        model = RecordedModel(JUDGE, load_recording(tmp_path / "judge.jsonl"))
        assert asyncio.run(model.complete(request_of())).content == wanted
    (tmp_path / "other.jsonl").write_text(whole)
    found = judged(RecordedModel(JUDGE, load_recording(tmp_path / "other.jsonl")))
    assert (found.unscored_reason, found.n_calls) == (UnscoredReason.JUDGE_SILENT, 0)


def test_equal_prompts_have_one_id_and_another_form_another() -> None:
    ids = {
        id_of(request_of(rubric).messages, JUDGE, Sampling()) for rubric in (CLEAR, CLEAR, WHOLE)
    }
    assert len(ids) == 2


def test_a_rubric_bundles_few_cases_of_drift() -> None:
    with pytest.raises(ValueError, match="at most 10"):
        replace(CLEAR, drift=CLEAR.drift * MOST_DRIFT_CASES)

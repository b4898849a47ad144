"""Verdicts that IFEval's own checks gave to 17 models, and Multi-IF's own counts of words and
sentences.

`PARLEY_MIFEVAL` and `PARLEY_MULTIIF` name clones of the two repositories (public); nothing of them
is kept here.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

from tasks.benchmarks.unidial.datasets.one_line import INSTRUCTION_NAMES
from tasks.metrics.registry import Metric
from tasks.metrics.verifiable_instructions import instruction_following, instruction_following_loose
from tasks.metrics.written_language import language_of, n_sentences, n_words
from tests.fixtures.clone import M_IFEVAL, MULTI_IF
from tests.fixtures.multi_if import load_checks
from tests.tasks.metrics.test_verifiable_instructions import CHINESE, HINDI, JAPANESE, THAI

N_MODELS, N_VERDICTS = 17, 14_109
ENOUGH = 0.997
JAPANESE_ANSWERS = "ja_input_response_data_gpt-4o-2024-08-06/eval_results_strict.jsonl"
LANGUAGE = {"language:response_language", "change_case:capital_letter", "change_case:lowercase"}
SEEDS = range(30)


@dataclass(frozen=True)
class Verdict:
    """One official verdict with what it is about."""

    answer: str
    instruction: str
    arguments: dict[str, Any]
    is_followed: bool


@pytest.fixture(scope="module")
def m_ifeval(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's questions, answers and verdicts."""
    folder = tmp_path_factory.mktemp("mifeval")
    return M_IFEVAL.extract(folder, "evaluations", "data")


def verdicts(folder: Path, reading: str) -> Iterator[Verdict]:
    """Yield the English verdicts on answers that are text; a model's missing answer is unscored
    with us.
    """
    asked = lines(folder / "data" / "en_input_data.jsonl")
    arguments = {row["prompt"]: row["kwargs"] for row in asked}
    for model in sorted((folder / "evaluations").glob("en_input_response_data_*")):
        for row in lines(model / f"eval_results_{reading}.jsonl"):
            named = zip(
                row["instruction_id_list"],
                arguments[row["prompt"]],
                row["follow_instruction_list"],
                strict=True,
            )
            for name, given, is_followed in named if isinstance(row["response"], str) else ():
                plain = str(name).removeprefix("en:")
                present = {key: value for key, value in given.items() if value is not None}
                yield Verdict(
                    row["response"], INSTRUCTION_NAMES.get(plain, plain), present, is_followed
                )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def reason(verdict: Verdict, reading: str) -> str:
    """Name what makes us differ from an official verdict; empty where nothing that we know does."""
    texts = loosened(verdict.answer) if reading == "loose" else [verdict.answer]
    if (
        verdict.instruction == "keywords:letter_frequency"
        and not verdict.arguments["letter"].isalpha()
    ):
        return (
            "the official check draws another letter at random where it is given a sign such as #"
        )
    if verdict.instruction in LANGUAGE and any(
        len({is_language(text, verdict, seed) for seed in SEEDS}) > 1 for text in texts
    ):
        return "langdetect without a seed gives either language"
    if verdict.instruction == "length_constraints:number_sentences":
        return "the official count needs a trained model, which is downloaded"
    if verdict.instruction == "startend:quotation" and not verdict.answer.strip().startswith('"'):
        return "other quotation marks count, as in Multi-IF"
    return ""


def loosened(answer: str) -> list[str]:
    """The texts of the loose reading in which something is said."""
    lines = answer.split("\n")
    parts = ["\n".join(left).strip() for left in (lines, lines[1:], lines[:-1], lines[1:-1])]
    return [text for part in parts for text in (part, part.replace("*", "")) if text]


def is_language(text: str, verdict: Verdict, seed: int) -> bool:
    factory().set_seed(seed)
    detector = factory().create()
    detector.append(text)
    return detector.detect() == verdict.arguments.get("language", "en")


@lru_cache(maxsize=1)
def factory() -> DetectorFactory:
    made = DetectorFactory()
    made.load_profile(PROFILES_DIRECTORY)
    return made


@pytest.mark.slow
@M_IFEVAL.needed
@pytest.mark.parametrize(
    ("reading", "metric"),
    [
        ("strict", instruction_following),
        pytest.param("loose", instruction_following_loose, marks=pytest.mark.long),
    ],
)
def test_we_agree_with_official_verdicts_and_each_difference_has_its_reason(
    m_ifeval: Path, reading: str, metric: Metric[..., float | None]
) -> None:
    found = list(verdicts(m_ifeval, reading))
    assert len(list((m_ifeval / "evaluations").glob("en_*"))) == N_MODELS
    assert len(found) == N_VERDICTS
    differing = [
        one
        for one in found
        if metric(one.answer, one.instruction, one.arguments) != float(one.is_followed)
    ]
    assert len(differing) <= (1 - ENOUGH) * len(found)
    reasons = Counter((one.instruction, reason(one, reading)) for one in differing)
    assert not [name for name, why in reasons if not why]


@pytest.fixture
def multi_if(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Multi-IF's checks."""
    return load_checks(tmp_path, monkeypatch)


def follows(check: Any, text: str, relation: str, **count: int) -> bool:
    checker = check("an instruction")
    checker.build_description(relation=relation, **count)
    return checker.check_following(text)


@MULTI_IF.needed
@pytest.mark.parametrize(
    "text",
    [CHINESE, JAPANESE, HINDI, THAI, f"{CHINESE}\n\n1. Python 3.12 \U0001f600\n- 「好。」他说"],
)
def test_words_and_sentences_are_counted_as_multi_if_does(multi_if: ModuleType, text: str) -> None:
    """At least n and not at least n + 1: its checks give the count away."""
    for count, check, name in (
        (n_words, multi_if.NumberOfWords, "num_words"),
        (n_sentences, multi_if.NumberOfSentences, "num_sentences"),
    ):
        assert follows(check, text, "at least", **{name: count(text)})
        assert not follows(check, text, "at least", **{name: count(text) + 1})


@pytest.mark.slow
@MULTI_IF.needed
@M_IFEVAL.needed
def test_models_japanese_answers_are_counted_as_multi_if_does(
    multi_if: ModuleType, m_ifeval: Path
) -> None:
    texts = [row["response"] for row in lines(m_ifeval / "evaluations" / JAPANESE_ANSWERS)]
    japanese = [text for text in texts if language_of(text) == "ja"]
    assert len(japanese) > 100
    split: Callable[[str], Iterator[str]] = multi_if.split_chinese_japanese
    for text in japanese:
        assert n_words(text) == multi_if.count_words_chinese_japanese(text)
        assert n_sentences(text) == len(list(split(text)))

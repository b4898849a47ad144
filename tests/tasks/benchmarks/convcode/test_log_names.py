"""Names of log files, both ways."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.episode import FEEDBACK_SETTINGS, ExecutionFeedback, FeedbackSetting, VerbalFeedback
from schemas.errors import ConfigError
from tasks.benchmarks.convcode.log_files.log_folder import (
    LogName,
    file_model_name,
    first_answers_model,
    parse_log_name,
)

F_C = FeedbackSetting()
FULL_EXPERT = FeedbackSetting(execution=ExecutionFeedback.FULL, verbal=VerbalFeedback.EXPERT)
PARTIAL_NOVICE = FeedbackSetting(execution=ExecutionFeedback.PARTIAL, verbal=VerbalFeedback.NOVICE)
ITERATIONS = st.integers(0, 99)
USUAL = st.text("abcXYZ019.-: @_=", min_size=1, max_size=12).filter(
    lambda text: "_CF" not in text and "_ITER" not in text
)
NASTY = st.lists(
    st.sampled_from(
        [
            "m",
            "_CF",
            "_EF_UNIT",
            "_EF_FULL",
            "_SNF",
            "_SEF",
            "_by_",
            "_ITER=2",
            "_ITER=0",
            ".jsonl",
            "/",
            "\0",
            "\n",
            "é",
        ]
    ),
    min_size=1,
    max_size=6,
).map("".join)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "bigcodebench_codellama_CodeLlama-7b-Instruct-hf_CF_EF_FULL_SEF_by_gpt-4o_ITER=10.jsonl",
            LogName("codellama_CodeLlama-7b-Instruct-hf", FULL_EXPERT, "gpt-4o", 10),
        ),
        (
            "bigcodebench_m_CF_EF_UNIT_SNF_by_gpt-4o.jsonl",
            LogName("m", PARTIAL_NOVICE, "gpt-4o", 1),
        ),
        ("bigcodebench_gpt-4o_CF_EF_FULL_SEF.jsonl", LogName("gpt-4o", FULL_EXPERT, None, 1)),
        ("bigcodebench_m_CF.jsonl", LogName("m", F_C, None, 1)),
        ("bigcodebench_m_CF_ITER=2.jsonl", LogName("m", F_C, None, 2)),
        ("bigcodebench_m_CF_ITER=0.jsonl", LogName("m", F_C, None, 0)),
    ],
)
def test_a_name_says_model_setting_simulator_and_turn(name: str, said: LogName) -> None:
    assert parse_log_name(name) == said
    assert said.file == name
    assert parse_log_name(f"{name}.gz") == said


@pytest.mark.parametrize(
    "name",
    [
        "bigcodebench_m_CF_EF.jsonl",
        "bigcodebench_m_CF_CHEATED.jsonl",
        "bigcodebench_m.jsonl",
        "bigcodebench__CF.jsonl",
        "bigcodebench_m_CF_by_gpt-4o.jsonl",
        "bigcodebench_m_CF_ITER=1.jsonl",
        "bigcodebench_m_CF_ITER=02.jsonl",
        "bigcodebench_m_CF_SEF_by_.jsonl",
        "bigcodebench_m_CF_eval_results.json",
        "humaneval_m_CF.jsonl",
        "bigcodebench_m_CF.jsonl.bak",
    ],
)
def test_another_name_is_no_logs_name(name: str) -> None:
    assert parse_log_name(name) is None


@given(
    model=USUAL, setting=st.sampled_from(FEEDBACK_SETTINGS), simulator=USUAL, iteration=ITERATIONS
)
def test_usual_names_are_written_and_understood_again(
    model: str, setting: FeedbackSetting, simulator: str, iteration: int
) -> None:
    said = LogName(
        model, setting, simulator if setting.verbal is not VerbalFeedback.NONE else None, iteration
    )
    assert parse_log_name(said.file) == said


@given(
    model=NASTY,
    setting=st.sampled_from(FEEDBACK_SETTINGS),
    simulator=st.none() | NASTY,
    iteration=ITERATIONS,
)
@example(model="a_CF_SEF_by_b", setting=F_C, simulator=None, iteration=1)
@example(model="m" * 250, setting=F_C, simulator=None, iteration=1)
@example(model="m", setting=F_C, simulator="gpt-4o", iteration=1)
def test_a_name_that_would_be_misunderstood_is_never_written(
    model: str, setting: FeedbackSetting, simulator: str | None, iteration: int
) -> None:
    said = LogName(model, setting, simulator, iteration)
    with suppress(ConfigError):
        name = said.file
        assert parse_log_name(name) == said
        assert not set("/\0") & set(name)


def test_the_refusal_names_the_model() -> None:
    with pytest.raises(ConfigError, match=r"'a_CF_SEF_by_b'.*would be ambiguous"):
        _ = LogName("a_CF_SEF_by_b", F_C, None, 1).file


@given(
    st.text("abc_CFEUNITL=SNby0123456789.jsonl", max_size=50).map(
        lambda text: f"bigcodebench_{text}.jsonl"
    )
)
@example("bigcodebench_m_CF_CF_SEF_by_x_CF.jsonl")
def test_what_is_understood_is_written_alike(name: str) -> None:
    said = parse_log_name(name)
    assert said is None or said.file == name


@pytest.mark.parametrize(
    ("name", "model"),
    [
        (
            "codellama--CodeLlama-7b-Instruct-hf--bigcodebench-instruct--vllm-0-1-sanitized-calibrated.jsonl",
            "codellama_CodeLlama-7b-Instruct-hf",
        ),
        ("gpt-4o--bigcodebench-instruct--openai-0-1-sanitized_calibrated.jsonl.gz", "gpt-4o"),
        ("gpt-4o--bigcodebench-instruct--openai-0.2-5.jsonl", "gpt-4o"),
        ("gpt-4o--bigcodebench-instruct--openai-0-1-sanitized-calibrated_eval_results.json", None),
        ("bigcodebench_m_CF.jsonl", None),
    ],
)
def test_bigcodebenchs_own_samples_are_known_by_their_names(name: str, model: str | None) -> None:
    assert first_answers_model(name) == model


def test_a_slash_is_spelt_as_upstream_spells_it() -> None:
    assert (
        file_model_name("codellama/CodeLlama-7b-Instruct-hf")
        == "codellama_CodeLlama-7b-Instruct-hf"
    )

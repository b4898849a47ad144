"""What the types themselves promise."""

import pickle

import duckdb
import pytest
from pydantic import ValidationError

from schemas import errors
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import (
    FEEDBACK_SETTINGS,
    NO_FEEDBACK,
    Episode,
    ExecutionFeedback,
    FeedbackSetting,
    Score,
    Step,
    StopReason,
    UnscoredReason,
    VerbalFeedback,
)
from schemas.problem import Problem
from schemas.run import ModelIdentity
from warehouse.sql_files import load


def test_there_are_nine_feedback_settings_with_the_papers_names():
    assert [setting.name for setting in FEEDBACK_SETTINGS] == [
        "f_c",
        "f_c,f_v",
        "f_c,f_v*",
        "f_c,f_e",
        "f_c,f_e,f_v",
        "f_c,f_e,f_v*",
        "f_c,f_e*",
        "f_c,f_e*,f_v",
        "f_c,f_e*,f_v*",
    ]
    assert len(set(FEEDBACK_SETTINGS)) == 9
    assert all(setting.compilation for setting in FEEDBACK_SETTINGS)


def test_no_feedback_is_none_of_the_nine():
    assert NO_FEEDBACK.name == "none"
    assert NO_FEEDBACK not in FEEDBACK_SETTINGS


def test_a_models_label_names_provider_and_model():
    assert ModelIdentity(provider="embedded", name="smollm2").label == "embedded:smollm2"


def test_values_cannot_be_changed_and_unknown_fields_are_refused():
    step = Step(turn=1, role=Role.USER, content="hi")
    with pytest.raises(ValidationError, match="frozen"):
        step.turn = 2
    with pytest.raises(ValidationError, match="extra"):
        Step.model_validate({"turn": 1, "role": "user", "content": "hi", "api_key": "k"})


@pytest.mark.parametrize(("value", "reason"), [(None, None), (0.0, UnscoredReason.INFRA)])
def test_a_score_has_a_value_or_a_reason(value: float | None, reason: UnscoredReason | None):
    with pytest.raises(ValidationError, match="either a value or a reason"):
        Score(
            run_id="r",
            benchmark="b",
            model="m",
            episode_id="e",
            problem_id="p",
            sample=0,
            turn=1,
            metric="x",
            metric_version=1,
            value=value,
            unscored_reason=reason,
        )


def test_only_what_is_missing_through_a_fault_counts_against_a_run():
    assert [reason.value for reason in UnscoredReason if not reason.is_fault] == [
        "nothing_to_forget",
        "undefined",
        "source_missing",
        "environment_missing",
        "context_length",
        "toolchain_missing",
        "network_missing",
        "refused",
    ]


def test_the_warehouse_knows_the_same_faults():
    macro = load("ddl", "is_fault").statement
    connection = duckdb.connect(":memory:")
    connection.execute(macro)
    for reason in UnscoredReason:
        assert connection.execute("select is_fault(?)", [reason.value]).fetchone() == (
            reason.is_fault,
        )
    assert connection.execute("select is_fault(null)").fetchone() == (False,)


def episode(stop: StopReason) -> Episode:
    names = {
        "episode_id",
        "run_id",
        "benchmark",
        "model",
        "setting",
        "dataset_version",
        "problem_id",
        "dialog_id",
        "row_digest",
    }
    steps = (
        Step(turn=1, role=Role.USER, content="q"),
        Step(turn=1, role=Role.ASSISTANT, content="a"),
    )
    times = {"started_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T00:00:00+00:00"}
    return Episode(
        **dict.fromkeys(names, "x"),
        **times,
        sample=0,
        seed=0,
        attempt=1,
        stop_reason=stop,
        steps=steps,
    )


def test_an_episode_is_pending_again_after_infra_only():
    assert {stop for stop in StopReason if not episode(stop).is_final} == {StopReason.INFRA}


def test_an_answer_is_the_assistants_of_that_turn():
    assert (episode(StopReason.FINISHED).answer(1), episode(StopReason.FINISHED).answer(2)) == (
        "a",
        None,
    )


def test_a_dialogs_instructions_are_those_of_its_user_turns():
    turns = (
        Turn(turn=1, role=Role.USER, instruction_id="base"),
        Turn(turn=1, role=Role.ASSISTANT),
        Turn(turn=2, role=Role.USER),
    )
    dialog = Dialog(
        benchmark="b",
        dataset_version="v",
        dialog_id="d",
        problem_id="p",
        turns=turns,
        row_digest="0",
    )
    assert dialog.instruction_ids == ("base", "")


def test_a_problem_names_the_instruction_it_lacks():
    with pytest.raises(KeyError, match="function/1 has no instruction 'docs'"):
        Problem.instruction(
            Problem.model_construct(problem_id="function/1", instructions=()), "docs"
        )


EVERY_ERROR = [
    errors.UnknownName(
        "benchmark", "codeifs", ("codeif", "convcode"), "See `parley list benchmarks`"
    ),
    errors.ModelUnavailable("no such model", permanent=True),
    errors.ModelUnavailable("too busy"),
    *(
        kind("message")
        for kind in vars(errors).values()
        if isinstance(kind, type)
        and kind.__module__ == errors.__name__
        and kind not in (errors.UnknownName, errors.ModelUnavailable)
    ),
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_errors_keep_message_and_facts_on_their_way_between_processes(error: errors.ParleyError):
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back), back.exit_code) == (
        type(error),
        str(error),
        vars(error),
        error.exit_code,
    )


def test_an_unknown_name_says_what_is_known_and_what_to_do():
    listed = "unknown benchmark 'codeifs'; known: codeif, convcode"
    assert str(EVERY_ERROR[0]) == f"{listed}. Do you mean codeif? See `parley list benchmarks`"


def test_exit_codes_are_those_of_the_contract():
    codes = {type(error).__name__: error.exit_code for error in EVERY_ERROR}
    assert {name for name, code in codes.items() if code == 2} == {
        "UsageError",
        "UnknownName",
        "ConfigError",
        "SourceUnreadable",
        "SchemaMismatch",
    }
    assert {name for name, code in codes.items() if code == 1} >= {
        "ParleyError",
        "InfraError",
        "AnswerMissing",
        "ReferenceMissing",
    }


def test_settings_are_values():
    one = FeedbackSetting(execution=ExecutionFeedback.PARTIAL, verbal=VerbalFeedback.EXPERT)
    assert one == FeedbackSetting(execution=ExecutionFeedback.PARTIAL, verbal=VerbalFeedback.EXPERT)
    assert one.name == "f_c,f_e,f_v*"

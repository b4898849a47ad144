"""Rules for episodes.

Every later number is computed from the steps of episodes, and each episode must count exactly once.
"""

from datetime import datetime

import pyarrow as pa

from schemas.dialog import Role
from schemas.episode import SCRIPTED, StopReason
from warehouse.checks.dialogs import DIGEST
from warehouse.checks.rule import (
    CheckContext,
    FrameRules,
    Row,
    Suite,
    at_least,
    matches,
    no_fault,
    not_empty,
    of_run,
    one_of,
    one_value,
    present,
    unique,
    whole_table,
)
from warehouse.checks.steps import (
    answer_before_question,
    call_without_observation,
    messages,
    negative_count,
    observation_without_call,
    role_repeated,
    step_out_of_place,
    turns_broken,
    without_texts,
)

_COLUMNS = (
    "episode_id",
    "benchmark",
    "model",
    "setting",
    "dataset_version",
    "problem_id",
    "dialog_id",
    "row_digest",
    "sample",
    "seed",
    "attempt",
    "stop_reason",
    "error",
    "started_at",
    "finished_at",
)
_SCRIPTED = dict(zip(("key", "value"), SCRIPTED, strict=True))


def _rows(data: pa.Table, context: CheckContext) -> list[Row]:
    rows = data.select(list(_COLUMNS)).to_pylist()
    for row, steps in zip(rows, without_texts(data["steps"]), strict=True):
        row["steps"] = steps
        row["n_answers"] = sum(step["role"] == Role.ASSISTANT.value for step in messages(row))
        row["final_episode_id"] = (
            row["episode_id"] if row["stop_reason"] != StopReason.INFRA.value else None
        )
    return rows


def _not_wanted(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if row["episode_id"] in (context.wanted_episodes or ())
        else "the run does not include this episode"
    )


def _not_of_its_id(row: Row, context: CheckContext) -> str | None:
    facts = (context.episode_facts or {}).get(row["episode_id"], {})
    wrong = next((column for column, value in facts.items() if row[column] != value), None)
    return (
        None
        if wrong is None
        else f"{wrong} is {row[wrong]!r}, its id was computed from {facts[wrong]!r}"
    )


def _not_contained(row: Row, context: CheckContext) -> str | None:
    listed = (context.contained_episodes or {}).get(row["episode_id"])
    if listed is None:
        return "run_episodes does not list this episode"
    if listed != (row["problem_id"], row["sample"]):
        return f"run_episodes lists the episode as problem {listed[0]!r} sample {listed[1]}"
    return None


def _ends_before_it_starts(row: Row, context: CheckContext) -> str | None:
    try:
        backwards = datetime.fromisoformat(row["started_at"]) > datetime.fromisoformat(
            row["finished_at"]
        )
    except (TypeError, ValueError) as error:
        return f"not a UTC time: {error}"
    return f"started {row['started_at']}, finished {row['finished_at']}" if backwards else None


def _answers_missing(row: Row, context: CheckContext) -> str | None:
    if row["stop_reason"] != StopReason.FINISHED.value:
        return None
    rounds = (context.dialog_rounds or {}).get(row["row_digest"])
    if rounds is None:
        return f"no dialog comes from the raw row {row['row_digest']}"
    answers = (step for step in messages(row) if step["role"] == Role.ASSISTANT.value)
    answered = {step["turn"] for step in answers if _SCRIPTED not in step["labels"]}
    return (
        None
        if len(answered) == rounds
        else f"finished after {len(answered)} of {rounds} answered turns"
    )


def _finished_without_answer(row: Row, context: CheckContext) -> str | None:
    if row["stop_reason"] == StopReason.FINISHED.value and not row["n_answers"]:
        return "finished, but no turn has an answer"
    return None


def _no_reason(row: Row, context: CheckContext) -> str | None:
    if (
        row["stop_reason"] in (StopReason.SUBJECT_ERROR.value, StopReason.INFRA.value)
        and not row["error"]
    ):
        return f"stopped by {row['stop_reason']}, but `error` is empty"
    return None


def _several_served(row: Row, context: CheckContext) -> str | None:
    served: dict[
        str, set[str]
    ] = {}  # Subject and simulated user may run on endpoints that report different model names.
    for step in (step for r in row["rows"] for step in r["steps"] if step["served_model"]):
        served.setdefault(step["role"], set()).add(step["served_model"])
    changes = [
        f"the {role}'s endpoint reported the model names {', '.join(sorted(n)[:5])}"
        for role, n in served.items()
        if len(n) > 1
    ]
    return "; ".join(changes) or None


def _served_model_changed(row: Row, context: CheckContext) -> str | None:
    changes = _several_served(row, context)
    return (
        (
            f"{changes}: the model changed during the run. Set another revision to start a new "
            "run, or allow an alias"
        )
        if changes
        else None
    )


def _listed(data: pa.Table, context: CheckContext) -> list[Row]:
    there = set(data["episode_id"].to_pylist())
    return [
        {"episode_id": e, "took_place": e in there}
        for e in sorted(context.contained_episodes or ())
    ]


def _listed_only(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if row["took_place"]
        else "run_episodes lists this episode, but the run has no such episode"
    )


def _taken_place(data: pa.Table, context: CheckContext) -> list[Row]:
    there = set(data["episode_id"].to_pylist())
    return [
        {"episode_id": e, "took_place": e in there} for e in sorted(context.wanted_episodes or ())
    ]


def _absent(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if row["took_place"]
        else "the run includes this episode, but the table has no row for it"
    )


SUITE = Suite(
    "episodes",
    (
        FrameRules(
            "one row per episode",
            ("episode_id", "problem_id", "sample"),
            _rows,
            (
                "episode_id",
                "final_episode_id",
                "problem_id",
                "sample",
                "attempt",
                "stop_reason",
                "row_digest",
                "n_answers",
            ),
            (
                not_empty("episodes_took_place", "a run without episodes has no result"),
                present(
                    "episode_id_present",
                    "steps, verdicts and scores refer to this id",
                    "episode_id",
                ),
                matches(
                    "episode_id_format", "an episode id is a content digest", "episode_id", DIGEST
                ),
                unique(
                    "episode_id_unique",
                    "a final episode counts once in every mean",
                    "final_episode_id",
                ),
                one_of(
                    "stop_reason_known",
                    "the stop reason says whether the episode is final or pending",
                    "stop_reason",
                    [r.value for r in StopReason],
                ),
                at_least("sample_from_zero", "samples are numbered from 0", "sample", 0),
                at_least("attempt_from_one", "attempts are numbered from 1", "attempt", 1),
                no_fault("episode_of_run", "tables are partitioned by benchmark and model", of_run),
                no_fault(
                    "episode_wanted",
                    "a mean covers only episodes of the run",
                    _not_wanted,
                    needs="wanted_episodes",
                ),
                no_fault(
                    "episode_of_its_id",
                    "an id is a digest of these values",
                    _not_of_its_id,
                    needs="episode_facts",
                ),
                no_fault(
                    "episode_contained",
                    "a run consists of the episodes that it lists",
                    _not_contained,
                    needs="contained_episodes",
                ),
                no_fault(
                    "turns_contiguous", "turn n of scores is turn n of the episode", turns_broken
                ),
                no_fault(
                    "user_before_assistant",
                    "an answer needs a question",
                    answer_before_question,
                ),
                no_fault(
                    "turn_and_role_once", "a turn has one answer, and one verdict", role_repeated
                ),
                no_fault(
                    "steps_before_their_message",
                    "the message is the last step of a turn",
                    step_out_of_place,
                ),
                no_fault(
                    "observation_of_a_call",
                    "a tool result answers one call of its turn",
                    observation_without_call,
                ),
                no_fault(
                    "calls_observed",
                    "a model continues only after the result of its tool call",
                    call_without_observation,
                ),
                no_fault(
                    "counts_not_negative",
                    "costs are sums of tokens, seconds and calls",
                    negative_count,
                ),
                no_fault(
                    "started_before_finished",
                    "durations are differences of these times",
                    _ends_before_it_starts,
                ),
                no_fault(
                    "finished_with_an_answer",
                    "a finished dialogue has an answer",
                    _finished_without_answer,
                ),
                no_fault(
                    "all_turns_answered",
                    "a finished dialogue has all its turns",
                    _answers_missing,
                    needs="dialog_rounds",
                ),
                no_fault(
                    "stop_explained",
                    "readers of the table need the reason",
                    _no_reason,
                    blocking=False,
                ),
            ),
        ),
        FrameRules(
            "one row per wanted episode",
            ("episode_id",),
            _taken_place,
            ("episode_id", "took_place"),
            (
                no_fault(
                    "wanted_episode_present",
                    "means cover finished episodes; `runs` counts the pending ones",
                    _absent,
                    blocking=False,
                    needs="wanted_episodes",
                ),
            ),
        ),
        FrameRules(
            "one row per listed episode",
            ("episode_id",),
            _listed,
            ("episode_id", "took_place"),
            (
                no_fault(
                    "listed_episode_exists",
                    "a run lists only episodes that exist",
                    _listed_only,
                    needs="contained_episodes",
                ),
            ),
        ),
        whole_table(
            _rows,
            one_value("one_model", "a run has one model", "model"),
            one_value("one_setting", "a run has one setting", "setting"),
            one_value("one_dataset_version", "a run has one dataset version", "dataset_version"),
            no_fault(
                "one_served_model",
                "an endpoint must serve one model throughout a run",
                _several_served,
                blocking=False,
            ),
            no_fault(
                "served_model_unchanged",
                "a run has one model",
                _served_model_changed,
                needs="check_served_model",
            ),
        ),
    ),
)

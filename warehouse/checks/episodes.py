"""What must hold of episodes: every later number is computed from their steps, and nobody may be counted twice or left out."""

from datetime import datetime

import pyarrow as pa

from schemas.dialog import Role
from schemas.episode import SCRIPTED, StopReason
from warehouse.checks.context import CheckContext
from warehouse.checks.dialogs import DIGEST
from warehouse.checks.rule import (
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
    negative_count,
    observation_without_call,
    said_twice,
    spoken,
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
        row["n_answers"] = sum(step["role"] == Role.ASSISTANT.value for step in spoken(row))
        row["final_episode_id"] = (
            row["episode_id"] if row["stop_reason"] != StopReason.INFRA.value else None
        )
    return rows


def _not_wanted(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if row["episode_id"] in (context.wanted_episodes or ())
        else "the run does not ask for this episode"
    )


def _not_of_its_id(row: Row, context: CheckContext) -> str | None:
    facts = (context.episode_facts or {}).get(row["episode_id"], {})
    wrong = next((column for column, value in facts.items() if row[column] != value), None)
    return (
        None if wrong is None else f"{wrong} is {row[wrong]!r}, its id was made of {facts[wrong]!r}"
    )


def _not_contained(row: Row, context: CheckContext) -> str | None:
    listed = (context.contained_episodes or {}).get(row["episode_id"])
    if listed is None:
        return "the run's list of episodes (run_episodes) lacks it"
    if listed != (row["problem_id"], row["sample"]):
        return f"run_episodes lists it as problem {listed[0]!r} sample {listed[1]}"
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
        return f"no dialog was staged from the raw row {row['row_digest']}"
    answers = (step for step in spoken(row) if step["role"] == Role.ASSISTANT.value)
    answered = {step["turn"] for step in answers if _SCRIPTED not in step["labels"]}
    return (
        None
        if len(answered) == rounds
        else f"finished with {len(answered)} answered turns of {rounds}"
    )


def _finished_without_answer(row: Row, context: CheckContext) -> str | None:
    if row["stop_reason"] == StopReason.FINISHED.value and not row["n_answers"]:
        return "finished, but nothing was answered"
    return None


def _no_reason(row: Row, context: CheckContext) -> str | None:
    if (
        row["stop_reason"] in (StopReason.SUBJECT_ERROR.value, StopReason.INFRA.value)
        and not row["error"]
    ):
        return f"stopped by {row['stop_reason']} without saying why"
    return None


def _several_served(row: Row, context: CheckContext) -> str | None:
    served: dict[
        str, set[str]
    ] = {}  # the subject's endpoint and the simulator's have each a name of their own
    for step in (step for r in row["rows"] for step in r["steps"] if step["served_model"]):
        served.setdefault(step["role"], set()).add(step["served_model"])
    said = [
        f"the {role}'s endpoint called itself {', '.join(sorted(n)[:5])}"
        for role, n in served.items()
        if len(n) > 1
    ]
    return "; ".join(said) or None


def _served_model_changed(row: Row, context: CheckContext) -> str | None:
    found = _several_served(row, context)
    return (
        f"{found}: it changed in mid-run. State another revision to begin a new run, or allow an alias"
        if found
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
        else "run_episodes lists it, but no such episode of the run exists"
    )


def _taken_place(data: pa.Table, context: CheckContext) -> list[Row]:
    there = set(data["episode_id"].to_pylist())
    return [
        {"episode_id": e, "took_place": e in there} for e in sorted(context.wanted_episodes or ())
    ]


def _absent(row: Row, context: CheckContext) -> str | None:
    return None if row["took_place"] else "wanted, but not in the table"


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
                    "episode_id_present", "steps, verdicts and scores hang on it", "episode_id"
                ),
                matches("episode_id_format", "it is a content digest", "episode_id", DIGEST),
                unique(
                    "episode_id_unique",
                    "a final episode counts once in every mean",
                    "final_episode_id",
                ),
                one_of(
                    "stop_reason_known",
                    "final or pending is read from it",
                    "stop_reason",
                    [r.value for r in StopReason],
                ),
                at_least("sample_from_zero", "samples are numbered from 0", "sample", 0),
                at_least("attempt_from_one", "attempts are numbered from 1", "attempt", 1),
                no_fault("episode_of_run", "tables are kept by benchmark and model", of_run),
                no_fault(
                    "episode_wanted",
                    "what nobody asked for has no place in a mean",
                    _not_wanted,
                    needs="wanted_episodes",
                ),
                no_fault(
                    "episode_of_its_id",
                    "an id names what it was made of",
                    _not_of_its_id,
                    needs="episode_facts",
                ),
                no_fault(
                    "episode_contained",
                    "a run is what it lists",
                    _not_contained,
                    needs="contained_episodes",
                ),
                no_fault(
                    "turns_contiguous", "turn n of scores is turn n of the episode", turns_broken
                ),
                no_fault(
                    "user_before_assistant",
                    "an answer to nothing is no answer",
                    answer_before_question,
                ),
                no_fault(
                    "turn_and_role_once", "two answers to one turn have no one verdict", said_twice
                ),
                no_fault(
                    "steps_before_their_message", "a turn ends with its message", step_out_of_place
                ),
                no_fault(
                    "observation_of_a_call",
                    "a result belongs to one call of its turn",
                    observation_without_call,
                ),
                no_fault(
                    "calls_observed",
                    "a model that calls a tool goes on from its result",
                    call_without_observation,
                ),
                no_fault(
                    "counts_not_negative",
                    "costs are sums of tokens, seconds and calls",
                    negative_count,
                ),
                no_fault(
                    "started_before_finished", "durations are differences", _ends_before_it_starts
                ),
                no_fault(
                    "finished_with_an_answer",
                    "a finished dialogue has been answered",
                    _finished_without_answer,
                ),
                no_fault(
                    "all_turns_answered",
                    "a finished dialogue went to its end",
                    _answers_missing,
                    needs="dialog_rounds",
                ),
                no_fault(
                    "stop_explained",
                    "a reader of the table wants to know why",
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
                    "means are over what took place; what is still pending is counted in the run",
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
                    "a run contains what took place",
                    _listed_only,
                    needs="contained_episodes",
                ),
            ),
        ),
        whole_table(
            _rows,
            one_value("one_model", "a run is one model", "model"),
            one_value("one_setting", "a run is one setting", "setting"),
            one_value("one_dataset_version", "a run is one version", "dataset_version"),
            no_fault(
                "one_served_model",
                "an endpoint that changes its model drifts",
                _several_served,
                blocking=False,
            ),
            no_fault(
                "served_model_unchanged",
                "a run is one model",
                _served_model_changed,
                needs="check_served_model",
            ),
        ),
    ),
)

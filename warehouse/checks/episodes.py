"""Rules for episodes and their steps.

Every later number is computed from the steps of episodes, and each episode must count exactly once.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from schemas.dialog import Role
from schemas.episode import SCRIPTED, StepKind, StopReason
from warehouse.checks import rule
from warehouse.checks.staged import DIGEST, consecutive_turns, repeated_role

_COUNTS = ("input_tokens", "output_tokens", "latency_s", "n_calls")
_STEP = ("turn", "role", "kind", "call_id", "calls.call_id", "served_model", "labels", *_COUNTS)
_SCRIPTED = dict(zip(("key", "value"), SCRIPTED, strict=True))


def _messages(row: rule.Row) -> list[Mapping[str, Any]]:
    return [
        step
        for step in row["steps"]
        if step["role"] != Role.SYSTEM.value and step["kind"] == StepKind.MESSAGE.value
    ]


def _n_answers(row: rule.Row) -> int:
    return sum(message["role"] == Role.ASSISTANT.value for message in row["messages"])


def _final_episode_id(row: rule.Row) -> str | None:
    return None if row["stop_reason"] == StopReason.INFRA.value else row["episode_id"]


_episodes = rule.TableRows(
    (
        *("episode_id", "benchmark", "model", "setting", "dataset_version", "problem_id"),
        *("dialog_id", "row_digest", "sample", "seed", "attempt", "stop_reason", "error"),
        *("started_at", "finished_at"),
        *(f"steps.{name}" for name in _STEP),  # without texts, which can be megabytes long
    ),
    {
        "messages": _messages,
        "n_answers": _n_answers,
        "final_episode_id": _final_episode_id,
    },
)


@rule.no_fault("episode_wanted", "a mean covers only episodes of the run", needs="wanted_episodes")
def _not_wanted(row: rule.Row, context: rule.CheckContext) -> str | None:
    return (
        None
        if row["episode_id"] in (context.wanted_episodes or ())
        else "the run does not include this episode"
    )


@rule.no_fault("episode_of_its_id", "an id is a digest of these values", needs="episode_facts")
def _not_of_its_id(row: rule.Row, context: rule.CheckContext) -> str | None:
    facts = (context.episode_facts or {}).get(row["episode_id"], {})
    wrong = next((column for column, value in facts.items() if row[column] != value), None)
    return (
        None
        if wrong is None
        else f"{wrong} is {row[wrong]!r}, its id was computed from {facts[wrong]!r}"
    )


@rule.no_fault(
    "episode_contained", "a run consists of the episodes that it lists", needs="contained_episodes"
)
def _not_contained(row: rule.Row, context: rule.CheckContext) -> str | None:
    listed = (context.contained_episodes or {}).get(row["episode_id"])
    if listed is None:
        return "run_episodes does not list this episode"
    if listed != (row["problem_id"], row["sample"]):
        return f"run_episodes lists the episode as problem {listed[0]!r} sample {listed[1]}"
    return None


@rule.no_fault("started_before_finished", "durations are differences of these times")
def _ends_before_it_starts(row: rule.Row, context: rule.CheckContext) -> str | None:
    try:
        backwards = datetime.fromisoformat(row["started_at"]) > datetime.fromisoformat(
            row["finished_at"]
        )
    except (TypeError, ValueError) as error:
        return f"not a UTC time: {error}"
    return f"started {row['started_at']}, finished {row['finished_at']}" if backwards else None


@rule.no_fault("all_turns_answered", "a finished dialogue has all its turns", needs="dialog_rounds")
def _answers_missing(row: rule.Row, context: rule.CheckContext) -> str | None:
    if row["stop_reason"] != StopReason.FINISHED.value:
        return None
    rounds = (context.dialog_rounds or {}).get(row["row_digest"])
    if rounds is None:
        return f"no dialog comes from the raw row {row['row_digest']}"
    answers = (step for step in row["messages"] if step["role"] == Role.ASSISTANT.value)
    answered = {step["turn"] for step in answers if _SCRIPTED not in step["labels"]}
    return (
        None
        if len(answered) == rounds
        else f"finished after {len(answered)} of {rounds} answered turns"
    )


@rule.no_fault("finished_with_an_answer", "a finished dialogue has an answer")
def _finished_without_answer(row: rule.Row, context: rule.CheckContext) -> str | None:
    if row["stop_reason"] == StopReason.FINISHED.value and not row["n_answers"]:
        return "finished, but no turn has an answer"
    return None


@rule.no_fault("stop_explained", "readers of the table need the reason", blocking=False)
def _no_reason(row: rule.Row, context: rule.CheckContext) -> str | None:
    if (
        row["stop_reason"] in (StopReason.SUBJECT_ERROR.value, StopReason.INFRA.value)
        and not row["error"]
    ):
        return f"stopped by {row['stop_reason']}, but `error` is empty"
    return None


def _served_models(rows: Sequence[rule.Row]) -> str | None:
    """Return the roles whose endpoint reported several model names, or None."""
    # Subject and simulated user may run on endpoints that report different model names.
    steps = (step for row in rows for step in row["steps"] if step["served_model"])
    served = rule.several_values((step["role"], step["served_model"]) for step in steps)
    changes = (
        f"the {role}'s endpoint reported the model names {', '.join(names[:5])}"
        for role, names in served.items()
    )
    return "; ".join(changes) or None


@rule.no_fault(
    "one_served_model", "an endpoint must serve one model throughout a run", blocking=False
)
def _several_served(row: rule.Row, context: rule.CheckContext) -> str | None:
    return _served_models(row["rows"])


@rule.no_fault("served_model_unchanged", "a run has one model", needs="check_served_model")
def _served_model_changed(row: rule.Row, context: rule.CheckContext) -> str | None:
    changes = _served_models(row["rows"])
    return changes and (
        f"{changes}: the model changed during the run. Set another revision to start a new "
        "run, or allow an alias"
    )


@rule.no_fault("user_before_assistant", "an answer needs a question")
def _answer_before_question(row: rule.Row, context: rule.CheckContext) -> str | None:
    user_turns: set[int] = set()
    for step in row["messages"]:
        if step["role"] == Role.USER.value:
            user_turns.add(step["turn"])
        elif step["turn"] not in user_turns:
            return f"turn {step['turn']} has an answer before its question"
    return None


@rule.no_fault("turn_and_role_once", "a turn has one answer, and one verdict")
def _role_repeated(row: rule.Row, context: rule.CheckContext) -> str | None:
    return repeated_role(row["messages"])


@rule.no_fault("steps_before_their_message", "the message is the last step of a turn")
def _step_out_of_place(row: rule.Row, context: rule.CheckContext) -> str | None:
    last, asks = 0, True
    for step in row["steps"]:
        if step["role"] == Role.SYSTEM.value:
            continue
        if step["kind"] == StepKind.MESSAGE.value:
            last, asks = step["turn"], step["role"] == Role.ASSISTANT.value
            continue
        seat, turn = (Role.USER.value, last + 1) if asks else (Role.ASSISTANT.value, last)
        if (step["turn"], step["role"]) not in ((turn, seat), (turn, Role.TOOL.value)):
            return (
                f"turn {step['turn']}: a step has role {step['role']}, expected role {seat} "
                f"and turn {turn}"
            )
    return None


@rule.no_fault("observation_of_a_call", "a tool result answers one call of its turn")
def _observation_without_call(row: rule.Row, context: rule.CheckContext) -> str | None:
    open_calls: set[str] = set()
    for step in row["steps"]:
        if step["kind"] == StepKind.MESSAGE.value:
            open_calls = set()
        if step["kind"] == StepKind.OBSERVATION.value:
            if step["call_id"] not in open_calls:
                return (
                    f"turn {step['turn']}: an observation answers {step['call_id']!r}, which is "
                    "not an open call of the turn"
                )
            open_calls.remove(step["call_id"])
        open_calls.update(call["call_id"] for call in step["calls"])
    return None


@rule.no_fault("calls_observed", "a model continues only after the result of its tool call")
def _call_without_observation(row: rule.Row, context: rule.CheckContext) -> str | None:
    open_calls: set[str] = set()
    for step in row["steps"]:
        if step["kind"] == StepKind.MESSAGE.value and open_calls:
            return (
                f"turn {step['turn']}: {step['role']} has a message while the tool call "
                f"{', '.join(sorted(open_calls)[:5])} is unanswered"
            )
        open_calls.update(call["call_id"] for call in step["calls"])
        open_calls.discard(step["call_id"])
    return None


@rule.no_fault("counts_not_negative", "costs are sums of tokens, seconds and calls")
def _negative_count(row: rule.Row, context: rule.CheckContext) -> str | None:
    for step in row["steps"]:
        for name in _COUNTS:
            if step[name] is not None and not step[name] >= 0:
                return f"turn {step['turn']}: {name} is {step[name]}"
    return None


_STEP_RULES = (
    _answer_before_question,
    _role_repeated,
    _step_out_of_place,
    _observation_without_call,
    _call_without_observation,
    _negative_count,
)


EPISODES = rule.Suite(
    "episodes",
    (
        rule.FrameRules(
            "one row per episode",
            ("episode_id", "problem_id", "sample"),
            _episodes,
            (
                rule.not_empty("episodes_took_place", "a run without episodes has no result"),
                rule.present(
                    "episode_id_present",
                    "steps, verdicts and scores refer to this id",
                    "episode_id",
                ),
                rule.matches(
                    "episode_id_format", "an episode id is a content digest", "episode_id", DIGEST
                ),
                rule.unique(
                    "episode_id_unique",
                    "a final episode counts once in every mean",
                    "final_episode_id",
                ),
                rule.one_of(
                    "stop_reason_known",
                    "the stop reason says whether the episode is final or pending",
                    "stop_reason",
                    [r.value for r in StopReason],
                ),
                rule.at_least("sample_from_zero", "samples are numbered from 0", "sample", 0),
                rule.at_least("attempt_from_one", "attempts are numbered from 1", "attempt", 1),
                rule.of_run("episode_of_run"),
                _not_wanted,
                _not_of_its_id,
                _not_contained,
                consecutive_turns("turns_contiguous", "turn n of scores is turn n of the episode"),
                *_STEP_RULES,
                _ends_before_it_starts,
                _finished_without_answer,
                _answers_missing,
                _no_reason,
            ),
        ),
        rule.each_present(
            "one row per wanted episode",
            ("episode_id",),
            "wanted_episode_present",
            "means cover finished episodes; `runs` counts the pending ones",
            "the run includes this episode, but the table has no row for it",
            blocking=False,
            needs="wanted_episodes",
        ),
        rule.each_present(
            "one row per listed episode",
            ("episode_id",),
            "listed_episode_exists",
            "a run lists only episodes that exist",
            "run_episodes lists this episode, but the run has no such episode",
            needs="contained_episodes",
        ),
        rule.whole_table(
            _episodes,
            rule.one_value("one_model", "a run has one model", "model"),
            rule.one_value("one_setting", "a run has one setting", "setting"),
            rule.one_value(
                "one_dataset_version", "a run has one dataset version", "dataset_version"
            ),
            _several_served,
            _served_model_changed,
        ),
    ),
)

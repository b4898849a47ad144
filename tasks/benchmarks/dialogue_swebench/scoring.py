"""Scores of dialogues as a whole (turn 0), from verdicts, steps and judgements; result tables.

The result tables are groups of the table `results`, and Tables 1 and 4 of the paper.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from sandbox.workspace.interface import image_of
from schemas.dialog import Dialog
from schemas.episode import Episode, Score, StopReason, UnscoredReason, reason_of, worst_of
from schemas.problem import Problem
from schemas.verdict import JudgeVerdict, Outcome
from tasks.benchmarks.contract import Due, Played, ScoreRequest, TestRun, missing_rating
from tasks.benchmarks.dialogue_swebench.cast import REVISED
from tasks.benchmarks.dialogue_swebench.rubrics import (
    COHERENCE,
    NATURALNESS,
    SEEKING,
    USER_TURN,
    agent_messages,
    has_agent_turn,
    user_replies,
)
from tasks.benchmarks.dialogue_swebench.settings import SETTINGS, revises
from tasks.benchmarks.program_runs import patch_run
from tasks.benchmarks.setting import Options
from tasks.dialogue.agents.repository.labels import n_answers
from tasks.metrics.registry import Metric
from tasks.metrics.repository_dialogue import (
    agent_steps,
    coherence,
    dialogue_turns,
    information_seeking,
    naturalness,
    resolved,
    user_faithful,
    user_in_environment,
    user_on_goal,
    user_revised,
    user_without_fault,
)
from warehouse.wide_tables import (
    UNSCORED,
    Column,
    Columns,
    WideTable,
    counts,
    interval,
    mean,
    result_columns,
)

FAIL_TO_PASS, PASS_TO_PASS = "fail_to_pass", "pass_to_pass"


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return one run of the tests, with a verdict on FAIL_TO_PASS and on PASS_TO_PASS.

    An empty list has no verdict.
    """
    assert problem.repo is not None
    lists = {FAIL_TO_PASS: problem.repo.fail_to_pass, PASS_TO_PASS: problem.repo.pass_to_pass}
    decides = {name: tests for name, tests in lists.items() if tests}
    return (patch_run(problem, episode, decides, image_of(problem.repo.environment)),)


def gold_answer(problem: Problem, turn: int) -> str:
    """Return the project's own fix as a unified diff."""
    return problem.reference_code


CRITERIA = {
    "faithful": user_faithful,
    "on_goal": user_on_goal,
    "in_environment": user_in_environment,
}
PLAYED = (resolved, dialogue_turns, agent_steps, user_revised)
JUDGED = (information_seeking, naturalness, coherence, *CRITERIA.values(), user_without_fault)
METRICS = tuple(metric.name for metric in (*PLAYED, *JUDGED))
USUAL_TURNS = 7
"""Average turns of a dialogue with an interactive agent (Table 1: 6.9, four models)."""
_MANY = 2000.0
RANGES: Mapping[str, tuple[float, float]] = {
    dialogue_turns.name: (0.0, _MANY),
    agent_steps.name: (0.0, _MANY),
    information_seeking.name: (0.0, _MANY),
    naturalness.name: (1.0, 3.0),
    coherence.name: (1.0, 3.0),
}
Value = float | UnscoredReason
Values = Mapping[Metric[..., float], Value]


def due(setting: str, options: Options, dialog: Dialog) -> Due:
    """Return the scores that a dialogue must have. The number of rounds is not fixed in advance."""
    metrics = (*PLAYED, *(JUDGED if SETTINGS[setting].rubrics else ()))
    return Due(
        101, frozenset((0, metric.name) for metric in metrics), is_exact=False, usual=USUAL_TURNS
    )


def score(request: ScoreRequest) -> Sequence[Score]:
    """Return the scores of each dialogue with one sample of an instance."""
    return [
        request.row(played, *values)
        for played in request.played
        for values in _scores(request, played)
    ]


def _scores(request: ScoreRequest, played: Played) -> Iterator[tuple[Metric[..., float], Value]]:
    if cut_off := _cut_off(played.episode):
        yield from dict.fromkeys(
            (*PLAYED, *(JUDGED if SETTINGS[request.setting].rubrics else ())), cut_off
        ).items()
        return
    yield resolved, _resolved(request, played)
    yield from _counts(request, played).items()
    if SETTINGS[request.setting].rubrics:
        yield from _judged_scores(played).items()


def _cut_off(episode: Episode) -> UnscoredReason | None:
    """Return why a dialogue ended early without its participants' fault, or None.

    A partial dialogue has no scores.
    """
    return (
        reason_of(episode, 1)
        if episode.stop_reason in (StopReason.INFRA, StopReason.NOT_ASKED)
        else None
    )


def _resolved(request: ScoreRequest, played: Played) -> Value:
    source = UnscoredReason.SOURCE_MISSING
    missing = worst_of(
        {played.missing_result(verdict, verdict.turn, source) for verdict in played.verdicts}
    )
    if missing or not played.verdicts:
        return missing or UnscoredReason.INFRA
    passed = {
        verdict.instruction_id: verdict.outcome is Outcome.PASSED for verdict in played.verdicts
    }
    return resolved(passed.get(FAIL_TO_PASS, True), passed.get(PASS_TO_PASS, True))


def _counts(request: ScoreRequest, played: Played) -> Values:
    labels = [
        dict(step.labels) for step in user_replies(played.episode) if revises(request.setting)
    ]
    revised = [values[REVISED] == "1" for values in labels if REVISED in values]
    return {
        dialogue_turns: dialogue_turns(len(agent_messages(played.episode))),
        agent_steps: agent_steps(n_answers(played.episode.steps)),
        user_revised: user_revised(sum(revised), len(revised))
        if revised
        else UnscoredReason.UNDEFINED,
    }


def _judged_scores(played: Played) -> Values:
    by_rubric: dict[str, list[JudgeVerdict]] = {}
    for judgement in played.judgements:
        by_rubric.setdefault(judgement.rubric, []).append(judgement)
    has_turn = has_agent_turn(played.episode)
    return {
        information_seeking: _seeking(
            by_rubric.get(SEEKING, []), len(agent_messages(played.episode))
        ),
        naturalness: _natural(by_rubric.get(NATURALNESS, []), has_turn),
        coherence: _coherent(by_rubric.get(COHERENCE, []), has_turn),
        **_user(by_rubric.get(USER_TURN, []), len(user_replies(played.episode))),
    }


def _unscored_reason(judgements: Sequence[JudgeVerdict]) -> UnscoredReason | None:
    return worst_of(
        {missing_rating(judgement) for judgement in judgements if judgement.value is None}
    )


def _seeking(judgements: Sequence[JudgeVerdict], n_messages: int) -> Value:
    if missing := _unscored_reason(judgements):
        return missing
    if len(judgements) != n_messages:
        return UnscoredReason.INFRA
    return information_seeking(judgement.value == 1.0 for judgement in judgements)


def _natural(judgements: Sequence[JudgeVerdict], has_turn: bool) -> Value:
    if not has_turn:
        return UnscoredReason.UNDEFINED
    values = [judgement.value for judgement in judgements if judgement.value is not None]
    return (
        naturalness(values[0]) if values else _unscored_reason(judgements) or UnscoredReason.INFRA
    )


def _coherent(judgements: Sequence[JudgeVerdict], has_turn: bool) -> Value:
    if not has_turn:
        return UnscoredReason.UNDEFINED
    values = {
        judgement.dimension: judgement.value
        for judgement in judgements
        if judgement.value is not None
    }
    if len(values) < 2:
        return _unscored_reason(judgements) or UnscoredReason.INFRA
    return coherence(values["local"] == 1.0, values["global"] == 1.0)


def _user(judgements: Sequence[JudgeVerdict], n_replies: int) -> Values:
    metrics = (*CRITERIA.values(), user_without_fault)
    if not n_replies:
        return dict.fromkeys(metrics, UnscoredReason.UNDEFINED)
    if missing := _unscored_reason(judgements):
        return dict.fromkeys(metrics, missing)
    met: dict[int, dict[str, bool]] = {}
    for judgement in judgements:
        met.setdefault(judgement.turn, {})[judgement.dimension] = judgement.value == 1.0
    if len(met) != n_replies:
        return dict.fromkeys(metrics, UnscoredReason.INFRA)
    shares: dict[Metric[..., float], Value] = {
        metric: metric(sum(turn.get(name, False) for turn in met.values()), n_replies)
        for name, metric in CRITERIA.items()
    }
    shares[user_without_fault] = user_without_fault(
        sum(all(turn.get(name) for name in CRITERIA) for turn in met.values()), n_replies
    )
    return shares


_SAMPLE = """coalesce(list_filter(
        from_json(scoring_options::json, '[["varchar"]]'), lambda option: option[1] = 'sample'
    )[1][2], 'all')"""


def _measured() -> Columns:
    columns: Columns = {}
    for name, metric in (
        ("turns", dialogue_turns),
        ("steps", agent_steps),
        ("asks", information_seeking),
        ("naturalness", naturalness),
        ("coherence", coherence),
    ):
        columns |= mean(name, metric.name) | counts(f"n_{name}", metric.name, UNSCORED)
    return columns


AGENTS = WideTable(
    name="dialogue_swebench_agents",
    grain="One row per run x axis (all, difficulty) x value of that axis: the paper's Table 1, with"
    " n beside each mean.",
    key=("run_id", "axis", "difficulty"),
    columns=result_columns("run_id benchmark model setting dataset_version episode_options")
    | {"sample": Column(_SAMPLE, "Which dialogues judges read: the scoring option `sample`.")}
    | result_columns("axis")
    | {
        "difficulty": Column("position", "Difficulty of the issue; NULL where the axis is `all`."),
        "n_dialogues": Column("max(n_dialogs)", "Dialogues of the group."),
    }
    | interval("resolved", resolved.name)
    | counts("n_resolved", resolved.name, UNSCORED)
    | _measured()
    | result_columns("sandbox isolated task_share"),
    source="from results where benchmark = 'dialogue_swebench' and axis in ('all', 'difficulty')",
)
_OF_WHOLE = f"filter (metric = '{user_revised.name}')"
USER = WideTable(
    name="dialogue_swebench_user",
    grain="One row per run x level (turn, dialogue): Table 4, shares of simulated replies and of"
    " dialogues that meet each criterion.",
    key=("run_id", "level"),
    columns=result_columns("run_id benchmark model setting dataset_version")
    | {
        "simulator": Column("simulator", "Model that spoke for the user."),
        "level": Column(
            "level",
            "Unit of the shares: each reply of the user (`turn`), or each dialogue (`dialogue`).",
        ),
    }
    | mean("faithful", user_faithful.name)
    | mean("on_goal", user_on_goal.name)
    | mean("in_environment", user_in_environment.name)
    | mean("all_three", user_without_fault.name)
    | counts("n", user_without_fault.name, UNSCORED)
    | {
        "revised_share": Column(
            f"max(mean) {_OF_WHOLE}",
            "Share of the user's drafts that were revised, in the whole run.",
        ),
        "n_revised": Column(f"max(n) {_OF_WHOLE}", "Dialogues behind `revised_share`."),
    }
    | result_columns("isolated task_share"),
    source="""from (
    select
        runs.run_id, runs.benchmark, runs.model, runs.setting, runs.dataset_version, runs.isolated,
        runs.task_share,
        runs.spec_json ->> '$.simulator.name' as simulator,
        wanted.level, results.metric, results.mean, results.n, results.n_unscored
    from runs
    cross join (values ('turn', 'user_turn'), ('dialogue', 'user_dialogue')) as wanted(level, axis)
    left join results on runs.run_id = results.run_id
        and (
            results.axis = wanted.axis
            or (results.axis = 'all' and results.metric = 'user_revised')
        )
    where runs.benchmark = 'dialogue_swebench' and runs.status = 'finished'
)""",
)
MARTS = (
    files("tasks.benchmarks.dialogue_swebench") / "marts" / "dialogue_swebench_groups.sql",
    AGENTS,
    USER,
)

"""Tables for plots and papers.

These are the main table (Tables 3 and 4), static runs (Tables 5, 11 and 12), Pass@1 by turn, and
the agreement of static and live runs on the ranking of models (Section 4.3).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.episode import (
    GROUND_TRUTH,
    NO_FEEDBACK,
    ExecutionFeedback,
    FeedbackSetting,
    VerbalFeedback,
)
from schemas.errors import UsageError
from tasks.benchmarks.conditions import (
    CONDITION_COLUMNS,
    OPTION,
    Condition,
    by_row,
    condition_cells,
    condition_of,
    fits,
    query_records,
    records_of_runs,
    table_of_runs,
    without,
)
from tasks.benchmarks.convcode.log_files.log_folder import file_model_name
from tasks.benchmarks.convcode.settings import COVERAGE, STATIC, TURNS, settings
from tasks.benchmarks.results import Export
from tasks.language.providers.registry import is_control
from tasks.metrics.rank_correlation import spearman
from warehouse.connect import Rows

Run = Mapping[str, Any]
"""Row of the query `figures`, and its condition."""


def is_of_control(run: Run) -> bool:
    """Return True if the answers come from a control."""
    return is_control(run["model"])


def compared_by(run: Run) -> tuple[str, str, int]:
    """Return the values that must be equal in a static run and a live run to compare them."""
    return run["dataset_version"], run["feedback"], run["turns"]


def replayed_condition(run: Run) -> Condition:
    """Return the condition without the digest of the data.

    It differs between static settings, since each has logs of its own.
    """
    return without(run["condition"], "dataset_digest")


def is_of_reference(run: Run) -> bool:
    """Return True if the replayed logs come from the model under test itself."""
    model, reference = run["model"], run["reference_model"]
    names = {file_model_name(model), file_model_name(model.partition(":")[2])}
    return reference is not None and file_model_name(reference) in names


def published_runs(home: Path, run_ids: Sequence[str]) -> list[Run]:
    """Return the figures of the named or all published runs, newest first."""
    records = query_records(home, "convcode", "figures", run_ids)
    return [record | {"condition": condition_of(record, settings())} for record in records]


_EXPERT = FeedbackSetting(verbal=VerbalFeedback.EXPERT)
_EXPERTS = tuple(
    FeedbackSetting(execution=execution, verbal=VerbalFeedback.EXPERT).name
    for execution in ExecutionFeedback
)
_KEY = ("dataset_version", "feedback", "simulator", "model", "options", "turns")
_CONDITION = tuple(name for name in CONDITION_COLUMNS if name not in _KEY)
"""Columns of a run's condition that follow the columns of a table whose rows are runs."""
SPEAKER_COLUMNS = (
    *_KEY,
    "turn_0",
    "turn_1",
    "n",
    "n_unscored",
    "n_turn_1",
    "n_turn_1_unscored",
    "isolated",
    "run_id",
    *_CONDITION,
)
LEAKAGE_COLUMNS = (
    *_KEY,
    *("mentions_reference", "n_mentions_reference"),
    *(
        "contains_refined_code",
        "n_contains_refined_code",
        "n_contains_refined_code_unscored",
        "run_id",
    ),
    *_CONDITION,
)


def speakers(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Tables 7 and 9: Pass@1 before and after one round of feedback.

    There is one row per subject and condition. The column `turn_0` corresponds to the paper's row
    without feedback. The column `turn_1` corresponds to Table 9 and the second row of Table 7 for
    an expert, and to the last row of Table 7 for the setting `live[f_c,ground_truth]`, which has no
    simulator. Controls are left out unless run ids name them.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    return _rows(home, run_ids, (_EXPERT.name, GROUND_TRUTH.name), SPEAKER_COLUMNS)


def leakage(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Table 8: how much expert feedback mentions the reference or holds the refined code.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    return _rows(home, run_ids, _EXPERTS, LEAKAGE_COLUMNS)


def _rows(
    home: Path, run_ids: Sequence[str], feedback: Sequence[str], columns: Sequence[str]
) -> Rows:
    return tuple(columns), [
        tuple(record[name] for name in columns)
        for record in records_of_runs(home, "convcode", "speakers", run_ids, settings())
        if record["feedback"] in feedback
    ]


_VERBAL = (VerbalFeedback.NONE, VerbalFeedback.NOVICE, VerbalFeedback.EXPERT)
_FEEDBACK = (
    NO_FEEDBACK.name,
    *(
        FeedbackSetting(execution=execution, verbal=verbal).name
        for verbal in _VERBAL
        for execution in ExecutionFeedback
    ),
)
"""Kinds of feedback in the order of the paper's Tables 3 and 4."""
_MAIN_METRICS = ("mrr", "n_mrr", "n_mrr_unscored", "recall", "n_recall", "n_recall_unscored")
_STATIC_METRICS = ("mrr", "mrr_upstream", *_MAIN_METRICS[1:])
_REPLAYED = tuple(feedback.name for feedback in STATIC.values())
STATIC_COLUMNS = (
    "dataset_version",
    "reference_model",
    "model",
    "turns",
    "isolated",
    "metric",
    *_REPLAYED,
    *CONDITION_COLUMNS,
)
MAIN_COLUMNS = (
    *("model", "dataset_version", "turns", "coverage", "isolated", "metric"),
    *_FEEDBACK,
    *CONDITION_COLUMNS,
)
PAIRED = (("mrr", "mrr"), ("mrr_upstream", "mrr"), ("recall", "recall"))
"""Pairs of (metric of static runs, metric of live runs)."""
CORRELATION_COLUMNS = (
    *("dataset_version", "feedback", "reference_model", "turns", "live_options"),
    *("static_metric", "live_metric", "n_models", "spearman", "p", "note"),
    *CONDITION_COLUMNS,
)


def curves(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Pass@1 with its interval, one row per run and turn: each run is a line of a plot.

    Without run ids, the newest run of each model, setting and condition is included, also of
    controls.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    return table_of_runs(home, "convcode", "curves", run_ids, settings(), has_controls=True)


def main_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Tables 3 and 4: MRR and Recall of live runs.

    There is one row per model, condition and metric (with its n) and one column per kind of
    feedback. A run without a part of the condition, such as a run without a simulator or an option,
    contributes to the rows of all its values. A cell shows the newest run of that model, setting
    and condition. It is None if there is no run or no score has a value. Controls are left out
    unless run ids name them.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    live = [
        run
        for run in published_runs(home, run_ids)
        if run["part"] == "live" and (run_ids or not is_of_control(run))
    ]
    rows: list[tuple[object, ...]] = []
    for version, model in sorted({(run["dataset_version"], run["model"]) for run in live}):
        ours = [run for run in live if (run["dataset_version"], run["model"]) == (version, model)]
        for condition, of_row in by_row(ours, lambda run: run["condition"]):
            newest = _newest_of_feedback(of_row)
            turns, coverage = (
                json.loads(condition.get(f"{OPTION}{name}", "null")) for name in (TURNS, COVERAGE)
            )
            isolated = all(run["isolated"] for run in newest.values())
            start = (model, version, turns and int(turns), coverage, isolated)
            rows += _rows_of_metrics(start, _MAIN_METRICS, _FEEDBACK, newest, condition)
    return MAIN_COLUMNS, rows


def _newest_of_feedback(runs: Iterable[Run]) -> Mapping[str, Run]:
    return {run["feedback"]: run for run in reversed([*runs])}


def _rows_of_metrics(
    start: tuple[object, ...],
    metrics: Sequence[str],
    columns: Sequence[str],
    newest: Mapping[str, Run],
    condition: Condition,
) -> list[tuple[object, ...]]:
    """Return a row for each metric, with a cell for each kind of feedback."""
    runs = [newest.get(name) for name in columns]
    return [
        (
            *(*start, metric),
            *(run and run[metric] for run in runs),
            *condition_cells(condition),
        )
        for metric in metrics
    ]


def correlation(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Spearman's rank correlation of static and live figures over the models with both.

    There is one row per setting, pair of conditions and metric. Runs of equal data, feedback,
    number of turns and sampling are compared. The condition is that of the live runs. Controls and
    the reference model on its own logs are left out. A model's newest run counts. With fewer than
    five models, there is no figure.

    Raises:
        UsageError: No run with replayed feedback is published.
    """
    runs = [run for run in published_runs(home, run_ids) if not is_of_control(run)]
    rows = list(_correlations(runs))
    if not rows:
        raise UsageError(
            f"no run with replayed feedback is published in {home}. "
            f"Publish runs of {', '.join(STATIC)} and of the matching live settings"
        )
    return CORRELATION_COLUMNS, rows


def _correlations(runs: Sequence[Run]) -> Iterator[tuple[object, ...]]:
    static = _groups(run for run in runs if run["part"] == "static" and not is_of_reference(run))
    live = _groups(run for run in runs if run["part"] == "live" and run["feedback"] in _REPLAYED)
    pairs: list[tuple[_Group, _Group]] = []
    for ours in static:
        pairs += [(ours, other) for other in live if _are_compared(ours, other)] or [(ours, {})]
    pairs += [({}, other) for other in live if not any(_are_compared(one, other) for one in static)]
    for ours, theirs in pairs:
        run, replayed = (next(iter(group.values()), None) for group in (theirs or ours, ours))
        assert run is not None
        reference = replayed["reference_model"] if replayed else ""
        place = (*compared_by(run)[:2], reference, run["turns"], run["options"] if theirs else "")
        for figures in _compared(ours, theirs):
            yield *place, *figures, *condition_cells(replayed_condition(run))


_Group = Mapping[str, Run]
"""Newest run of each model, of runs that differ only in their model."""


def _groups(runs: Iterable[Run]) -> Sequence[_Group]:
    groups: dict[tuple[Any, ...], dict[str, Run]] = {}
    for run in runs:
        condition = tuple(sorted(replayed_condition(run).items()))
        key = (compared_by(run), run["reference_model"] or "", run["options"], condition)
        groups.setdefault(key, {}).setdefault(run["model"], run)
    return [group for _, group in sorted(groups.items(), key=lambda item: item[0])]


def _are_compared(static: _Group, live: _Group) -> bool:
    one, other = next(iter(static.values())), next(iter(live.values()))
    return compared_by(one) == compared_by(other) and fits(
        replayed_condition(one), replayed_condition(other)
    )


def _compared(static: _Group, live: _Group) -> Iterator[tuple[object, ...]]:
    for static_metric, live_metric in PAIRED:
        models = sorted(static.keys() & live.keys())
        values = [(static[model][static_metric], live[model][live_metric]) for model in models]
        pairs = [pair for pair in values if None not in pair]
        test = spearman([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        yield static_metric, live_metric, test.n, test.rho, test.p, test.note


def static_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Tables 5, 11 and 12: MRR and Recall of static runs.

    There is one row per reference model, model, condition and metric (with its n), and one column
    per kind of replayed feedback. A cell shows the newest run, or None. Controls are left out
    unless run ids name them. Both versions of MRR are included: the paper reports `mrr_upstream`.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    runs = [run for run in published_runs(home, run_ids) if run_ids or not is_of_control(run)]
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in (run for run in runs if run["part"] == "static"):
        own = tuple(sorted(replayed_condition(run).items()))
        version, reference = run["dataset_version"], run["reference_model"] or ""
        key = (version, reference, run["model"], run["turns"], own)
        groups.setdefault(key, []).append(run)
    rows: list[tuple[object, ...]] = []
    for key, members in sorted(groups.items()):
        newest = _newest_of_feedback(members)
        start = (*key[:4], all(run["isolated"] for run in newest.values()))
        rows += _rows_of_metrics(start, _STATIC_METRICS, _REPLAYED, newest, dict(key[4]))
    return STATIC_COLUMNS, rows


EXPORTS: Mapping[str, Export] = {
    "static-table": Export(
        help="MRR and Recall of static runs with n, by reference model (tables 5, 11 and 12)",
        rows=static_table,
    ),
    "speakers": Export(
        help="Pass@1 before and after one round of expert or reference feedback (tables 7 and 9)",
        rows=speakers,
    ),
    "leakage": Export(
        help="how often an expert's feedback reveals the solution, with n, by simulator (table 8)",
        rows=leakage,
    ),
    "main-table": Export(
        help="MRR and Recall of live runs with n, by model and metric (tables 3 and 4)",
        rows=main_table,
    ),
    "curves": Export(
        help="Pass@1 of each turn with its 95% interval, by run and turn, for plots",
        rows=curves,
    ),
    "correlation": Export(
        help="Spearman's rank correlation of static and live results over models, with n and p",
        rows=correlation,
    ),
}

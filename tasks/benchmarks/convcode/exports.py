"""Tables for plots and papers.

These are the main table (Tables 3 and 4), static runs (Tables 5, 11 and 12), Pass@1 by turn, and
the agreement of static and live runs on the ranking of models (Section 4.3).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from schemas.errors import UsageError
from schemas.feedback import (
    GROUND_TRUTH,
    NO_FEEDBACK,
    ExecutionFeedback,
    FeedbackSetting,
    VerbalFeedback,
)
from tasks.benchmarks.convcode.log_files.log_folder import file_model_name
from tasks.benchmarks.convcode.settings import COVERAGE, STATIC, TURNS
from tasks.benchmarks.results import Export
from tasks.language.providers.registry import is_control
from tasks.metrics.rank_correlation import spearman
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql


def query_marts(home: Path, name: str, run_ids: Sequence[str]) -> Rows:
    """Return the result of the SQL query `queries/NAME.sql` of this benchmark.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    marts = query(
        home,
        "select table_name from information_schema.tables where table_name = 'convcode_settings'",
    )[1]
    if not marts:
        raise UsageError(
            f"no run of convcode is published in {home}. "
            "`parley run convcode.SETTING --model SPEC` creates one"
        )
    statement = read_sql(files("tasks.benchmarks.convcode") / "queries" / f"{name}.sql").statement
    return query(home, statement, {"run_ids": list(run_ids)})


_EXPERT = FeedbackSetting(verbal=VerbalFeedback.EXPERT)
_EXPERTS = tuple(
    FeedbackSetting(execution=execution, verbal=VerbalFeedback.EXPERT).name
    for execution in ExecutionFeedback
)
_CONDITION = ("dataset_version", "feedback", "simulator", "model", "options", "turns")
SPEAKER_COLUMNS = (
    *_CONDITION,
    "turn_0",
    "turn_1",
    "n",
    "n_unscored",
    "n_turn_1",
    "n_turn_1_unscored",
    "isolated",
    "run_id",
)
LEAKAGE_COLUMNS = (
    *_CONDITION,
    *("mentions_reference", "n_mentions_reference"),
    *(
        "contains_refined_code",
        "n_contains_refined_code",
        "n_contains_refined_code_unscored",
        "run_id",
    ),
)


def speakers(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Tables 7 and 9: Pass@1 before and after one round of feedback.

    There is one row per simulator and subject. The column `turn_0` corresponds to the paper's row
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
    names, rows = query_marts(home, "speakers", run_ids)
    records = [dict(zip(names, row, strict=True)) for row in rows]
    return tuple(columns), [
        tuple(record[name] for name in columns)
        for record in records
        if record["feedback"] in feedback
    ]


SPEAKER_EXPORTS: Mapping[str, Export] = {
    "speakers": Export(
        help="Pass@1 before and after one round of expert or reference feedback (tables 7 and 9)",
        rows=speakers,
    ),
    "leakage": Export(
        help="how often an expert's feedback reveals the solution, with n, by simulator (table 8)",
        rows=leakage,
    ),
}


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
)
MAIN_COLUMNS = ("model", "dataset_version", "turns", "coverage", "isolated", "metric", *_FEEDBACK)
PAIRED = (("mrr", "mrr"), ("mrr_upstream", "mrr"), ("recall", "recall"))
"""Pairs of (metric of static runs, metric of live runs)."""
CORRELATION_COLUMNS = (
    *("dataset_version", "feedback", "reference_model", "turns", "live_options"),
    *("static_metric", "live_metric", "n_models", "spearman", "p", "note"),
)


@dataclass(frozen=True)
class _Run:
    """Condition and results of one run."""

    part: str
    model: str
    dataset_version: str
    feedback: str
    turns: int
    options: str
    reference_model: str | None
    mrr: float | None
    mrr_upstream: float | None
    recall: float | None
    n_mrr: int
    n_mrr_unscored: int
    n_recall: int
    n_recall_unscored: int
    isolated: bool

    @property
    def chosen(self) -> Mapping[str, str]:
        """Return the run's options, empty for a setting without feedback."""
        return dict(json.loads(self.options))

    @property
    def is_of_control(self) -> bool:
        """Return True if the answers come from a control."""
        return is_control(self.model)

    @property
    def compared_by(self) -> tuple[str, str, int]:
        """Return the values that must be equal in a static run and a live run to compare them."""
        return self.dataset_version, self.feedback, self.turns

    @property
    def is_of_reference(self) -> bool:
        """Return True if the replayed logs come from the model under test itself."""
        names = {file_model_name(self.model), file_model_name(self.model.partition(":")[2])}
        return self.reference_model is not None and file_model_name(self.reference_model) in names


_Key = tuple[tuple[str, str, int], str]
"""(`_Run.compared_by`, reference model of static runs or options of live runs)."""
_Groups = dict[_Key, dict[str, _Run]]
"""Newest run of each model, by key."""


def curves(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Pass@1 with its interval, one row per run and turn: each run is a line of a plot.

    Without run ids, the newest run of each model, setting, dataset version and options is included.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    return query_marts(home, "curves", run_ids)


def main_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Tables 3 and 4: MRR and Recall of live runs.

    There is one row per model and metric (with its n) and one column per kind of feedback. A row
    has a single dataset version and set of options. A setting without an option appears in the rows
    of all its values. A cell shows the newest run of that model, setting and options. It is None if
    there is no run or no score has a value. Controls are left out unless run ids name them.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    runs = [_Run(*row) for row in query_marts(home, "figures", run_ids)[1]]
    live = [run for run in runs if run.part == "live" and (run_ids or not run.is_of_control)]
    rows: list[tuple[object, ...]] = []
    for version, model in sorted({(run.dataset_version, run.model) for run in live}):
        ours = [run for run in live if (run.dataset_version, run.model) == (version, model)]
        for options in _choices(ours):
            newest: dict[str, _Run] = {}
            for run in ours:
                if run.chosen.items() <= options.items():
                    newest.setdefault(run.feedback, run)
            cells = [newest.get(feedback) for feedback in _FEEDBACK]
            turns = int(options[TURNS]) if TURNS in options else None
            cells_of_row = (
                model,
                version,
                turns,
                options.get(COVERAGE),
                all(run.isolated for run in newest.values()),
            )
            rows += [
                (*cells_of_row, metric, *(getattr(cell, metric, None) for cell in cells))
                for metric in _MAIN_METRICS
            ]
    return MAIN_COLUMNS, rows


def _choices(runs: Sequence[_Run]) -> Iterator[Mapping[str, str]]:
    """Yield the options of the table's rows: those that are no proper subset of another run's."""
    every = {run.options: run.chosen for run in runs}
    for _, options in sorted(every.items()):
        if not any(options.items() < others.items() for others in every.values()):
            yield options


def correlation(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Spearman's rank correlation of static and live figures over the models with both.

    There is one row per setting and metric. Runs of equal data, feedback and number of turns are
    compared. Controls and the reference model on its own logs are left out. A model's newest run
    counts. With fewer than five models, there is no figure.

    Raises:
        UsageError: No run with replayed feedback is published.
    """
    runs = [_Run(*row) for row in query_marts(home, "figures", run_ids)[1]]
    rows = list(_correlations([run for run in runs if not run.is_of_control]))
    if not rows:
        raise UsageError(
            f"no run with replayed feedback is published in {home}. "
            f"Publish runs of {', '.join(STATIC)} and of the matching live settings"
        )
    return CORRELATION_COLUMNS, rows


def _correlations(runs: Sequence[_Run]) -> Iterator[tuple[object, ...]]:
    replayed = {feedback.name for feedback in STATIC.values()}
    static = _newest(
        (run, run.reference_model or "")
        for run in runs
        if run.part == "static" and not run.is_of_reference
    )
    live = _newest(
        (run, run.options) for run in runs if run.part == "live" and run.feedback in replayed
    )
    unpaired = {key for key, _ in live} - {key for key, _ in static}
    for (key, reference), ours in sorted(
        [*static.items(), *(((key, ""), {}) for key in unpaired)], key=_place
    ):
        others = [
            (options, theirs)
            for (live_key, options), theirs in sorted(live.items(), key=_place)
            if live_key == key
        ]
        for options, theirs in others or [("", {})]:
            yield from _compared((*key[:2], reference, key[2], options), ours, theirs)


def _place(group: tuple[_Key, object]) -> _Key:
    return group[0]


def _newest(runs: Iterable[tuple[_Run, str]]) -> _Groups:
    groups: _Groups = {}
    for run, beside in runs:
        groups.setdefault((run.compared_by, beside), {}).setdefault(run.model, run)
    return groups


def _compared(
    place: tuple[object, ...], static: Mapping[str, _Run], live: Mapping[str, _Run]
) -> Iterator[tuple[object, ...]]:
    for static_metric, live_metric in PAIRED:
        models = sorted(static.keys() & live.keys())
        values = [
            (getattr(static[model], static_metric), getattr(live[model], live_metric))
            for model in models
        ]
        pairs = [pair for pair in values if None not in pair]
        test = spearman([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        yield *place, static_metric, live_metric, test.n, test.rho, test.p, test.note


def static_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Tables 5, 11 and 12: MRR and Recall of static runs.

    There is one row per reference model, model and metric (with its n), and one column per kind of
    replayed feedback. A cell shows the newest run, or None. Controls are left out unless run ids
    name them. Both versions of MRR are included: the paper reports `mrr_upstream`.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    runs = [_Run(*row) for row in query_marts(home, "figures", run_ids)[1]]
    static = [run for run in runs if run.part == "static" and (run_ids or not run.is_of_control)]
    groups: dict[tuple[str, str, str, int], dict[str, _Run]] = {}
    for run in static:
        key = (run.dataset_version, run.reference_model or "", run.model, run.turns)
        groups.setdefault(key, {}).setdefault(run.feedback, run)
    rows: list[tuple[object, ...]] = []
    for key, newest in sorted(groups.items()):
        cells = [newest.get(name) for name in _REPLAYED]
        isolated = all(run.isolated for run in newest.values())
        rows += [
            (*key, isolated, metric, *(getattr(cell, metric, None) for cell in cells))
            for metric in _STATIC_METRICS
        ]
    return STATIC_COLUMNS, rows


EXPORTS: Mapping[str, Export] = {
    "static-table": Export(
        help="MRR and Recall of static runs with n, by reference model (tables 5, 11 and 12)",
        rows=static_table,
    ),
    **SPEAKER_EXPORTS,
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

"""Tables for plots and papers.

The main table (Tables 3 and 4), static runs (Tables 5, 11 and 12), Pass@1 by turn, and the agreement
of static and live runs on the order of models (Section 4.3).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import UsageError
from schemas.feedback import NO_FEEDBACK, ExecutionFeedback, FeedbackSetting, VerbalFeedback
from tasks.benchmarks.convcode.log_files.log_names import spelt
from tasks.benchmarks.convcode.published import query_marts
from tasks.benchmarks.convcode.settings import COVERAGE, STATIC, TURNS
from tasks.benchmarks.convcode.speakers import SPEAKER_EXPORTS
from tasks.benchmarks.results import Export
from tasks.language.providers.registry import is_control
from tasks.metrics.rank_correlation import spearman
from warehouse.connect import Rows

_SPOKEN = (VerbalFeedback.NONE, VerbalFeedback.NOVICE, VerbalFeedback.EXPERT)
_FEEDBACK = (
    NO_FEEDBACK.name,
    *(
        FeedbackSetting(execution=execution, verbal=verbal).name
        for verbal in _SPOKEN
        for execution in ExecutionFeedback
    ),
)
"""In the order of the paper's tables 3 and 4."""
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
"""(metric of the static runs, metric of the live ones)."""
CORRELATION_COLUMNS = (
    *("dataset_version", "feedback", "reference_model", "turns", "live_options"),
    *("static_metric", "live_metric", "n_models", "spearman", "p", "note"),
)


@dataclass(frozen=True)
class _Run:
    """One run's figures."""

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
        """Its options; a setting without feedback has none."""
        return dict(json.loads(self.options))

    @property
    def is_of_control(self) -> bool:
        """Whether its answers are the benchmark's own, or none."""
        return is_control(self.model)

    @property
    def compared_by(self) -> tuple[str, str, int]:
        """Static and live runs of equal value are compared."""
        return self.dataset_version, self.feedback, self.turns

    @property
    def is_of_reference(self) -> bool:
        """Whether its logs are the model's own."""
        names = {spelt(self.model), spelt(self.model.partition(":")[2])}
        return self.reference_model is not None and spelt(self.reference_model) in names


_Key = tuple[tuple[str, str, int], str]
"""(what must agree, reference model of static runs or options of live ones)."""
_Groups = dict[_Key, dict[str, _Run]]
"""-> model -> its newest run."""


def curves(home: Path, run_ids: Sequence[str]) -> Rows:
    """Pass@1 with its interval, one row a run and turn: a line of a plot for each run.

    Without run ids: the newest run of each model, setting, dataset version and options.

    Raises:
        UsageError: no run of this benchmark is published.
    """
    return query_marts(home, "curves", run_ids)


def main_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Tables 3 and 4: MRR and Recall of live runs, one row a model and metric (with its n), a column a kind of feedback.

    A row has one dataset version and one choice of options. A setting without an option stands in the rows of all its values.
    A cell shows the newest run of that model, setting and options; None where there is none, or none of its scores has a value.
    Controls are left out unless run ids name them.

    Raises:
        UsageError: no run of this benchmark is published.
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
            of_row = (
                model,
                version,
                turns,
                options.get(COVERAGE),
                all(run.isolated for run in newest.values()),
            )
            rows += [
                (*of_row, metric, *(getattr(cell, metric, None) for cell in cells))
                for metric in _MAIN_METRICS
            ]
    return MAIN_COLUMNS, rows


def _choices(runs: Sequence[_Run]) -> Iterator[Mapping[str, str]]:
    """Options of the rows that hold these runs: each run's, unless another run's options include them."""
    every = {run.options: run.chosen for run in runs}
    for _, options in sorted(every.items()):
        if not any(options.items() < others.items() for others in every.values()):
            yield options


def correlation(home: Path, run_ids: Sequence[str]) -> Rows:
    """Spearman's rank correlation of static and live figures over the models that have both, one row a setting and metric.

    Runs of the same data, feedback and number of turns are compared. Controls are left out, and so is the reference model on its
    own logs. A model's newest run counts. Fewer than five models have no figure.

    Raises:
        UsageError: no run is published whose feedback is replayed.
    """
    runs = [_Run(*row) for row in query_marts(home, "figures", run_ids)[1]]
    rows = list(_correlations([run for run in runs if not run.is_of_control]))
    if not rows:
        raise UsageError(
            f"no run of a model in a setting that is replayed is published in {home}: {', '.join(STATIC)}, and live"
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
    alone = {key for key, _ in live} - {key for key, _ in static}
    for (key, reference), ours in sorted(
        [*static.items(), *(((key, ""), {}) for key in alone)], key=_place
    ):
        others = [
            (options, theirs)
            for (found, options), theirs in sorted(live.items(), key=_place)
            if found == key
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
        both = sorted(static.keys() & live.keys())
        values = [
            (getattr(static[model], static_metric), getattr(live[model], live_metric))
            for model in both
        ]
        known = [(one, other) for one, other in values if one is not None and other is not None]
        found = spearman([one for one, _ in known], [other for _, other in known])
        yield *place, static_metric, live_metric, found.n, found.rho, found.p, found.note


def static_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Tables 5, 11 and 12: MRR and Recall of static runs, one row a reference model, model and metric (with its n).

    The columns are the kinds of feedback that are replayed. A cell shows the newest run; None where there is none. Controls are
    left out unless run ids name them. Both readings of MRR stand there: the paper's own figures are `mrr_upstream`.

    Raises:
        UsageError: no run of this benchmark is published.
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
        help="MRR and Recall of static runs with n, by reference model, a column a kind of feedback (tables 5, 11 and 12)",
        rows=static_table,
    ),
    **SPEAKER_EXPORTS,
    "main-table": Export(
        help="MRR and Recall of live runs with n, one row a model and metric, a column a kind of feedback (tables 3 and 4)",
        rows=main_table,
    ),
    "curves": Export(
        help="Pass@1 of each turn with its 95% interval, one row a run and turn, ready to be plotted",
        rows=curves,
    ),
    "correlation": Export(
        help="Spearman's rank correlation of static and live results over models, with n and p, one row a setting and metric",
        rows=correlation,
    ),
}

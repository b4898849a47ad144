"""Tables about simulated users: their effect on Pass@1 (Tables 7 and 9) and leakage (Table 8)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from schemas.feedback import GROUND_TRUTH, ExecutionFeedback, FeedbackSetting, VerbalFeedback
from tasks.benchmarks.convcode.published import query_marts
from tasks.benchmarks.results import Export
from warehouse.connect import Rows

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

    There is one row per simulator and subject.
    `turn_0` is the row without feedback. An expert's `turn_1` is Table 9 and the second row of
    Table 7. `turn_1` of the setting `live[f_c,ground_truth]`, which has no simulator, is the last
    row of Table 7. Controls are left out unless run ids name them.

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

"""Tables about who speaks: Pass@1 after one round by speaker and subject (tables 7 and 9), and leakage by speaker (table 8)."""

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
    """Tables 7 and 9: Pass@1 before and after one round of feedback, one row a speaker and subject.

    `turn_0` is the row without feedback, an expert's `turn_1` is Table 9 and the second row of Table 7, and that of the setting
    `live[f_c,ground_truth]` its last row, which has no simulator. Controls are left out unless run ids name them.

    Raises:
        UsageError: no run of this benchmark is published.
    """
    return _rows(home, run_ids, (_EXPERT.name, GROUND_TRUTH.name), SPEAKER_COLUMNS)


def leakage(home: Path, run_ids: Sequence[str]) -> Rows:
    """Table 8: shares of an expert's feedback that mention the reference code and that hold the refined code, with n.

    Raises:
        UsageError: no run of this benchmark is published.
    """
    return _rows(home, run_ids, _EXPERTS, LEAKAGE_COLUMNS)


def _rows(
    home: Path, run_ids: Sequence[str], feedback: Sequence[str], columns: Sequence[str]
) -> Rows:
    names, found = query_marts(home, "speakers", run_ids)
    records = [dict(zip(names, row, strict=True)) for row in found]
    return tuple(columns), [
        tuple(record[name] for name in columns)
        for record in records
        if record["feedback"] in feedback
    ]


SPEAKER_EXPORTS: Mapping[str, Export] = {
    "speakers": Export(
        help="Pass@1 before and after one round by speaker and subject, with n: an expert or the reference code (tables 7 and 9)",
        rows=speakers,
    ),
    "leakage": Export(
        help="how often an expert's feedback gives the solution away, with n, a row a speaker (table 8)",
        rows=leakage,
    ),
}

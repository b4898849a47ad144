"""Test verdicts after the audit: a forged pass counts as failed.

A pass is forged if the tests also pass with a false expectation (see `AuditOutcome`). The lake's
rows of `test_verdicts` do not change.
"""

import pyarrow as pa

from schemas.audit import AuditOutcome, ForgeryAudit
from schemas.lake.rows import from_arrow
from schemas.verdict import FailureReason, Outcome, TestVerdict
from tasks.storage.parquet_store import Lake, listing_again

_KEY = ("episode_id", "turn", "instruction_id", "verdict_id")


def read_verdicts(lake: Lake, **keys: str) -> list[TestVerdict]:
    """Return a run's test verdicts. Forged passes count as failed, with the reason `forged`."""
    return from_arrow(verdict_table(lake, **keys), TestVerdict)


def verdict_table(lake: Lake, **keys: str) -> pa.Table:
    """Return a run's test verdicts like `read_verdicts`, but as an Arrow table."""
    rows = listing_again(
        lambda: lake.read_arrow("test_verdicts", lake.parts("test_verdicts", **keys))
    )
    return with_forged_failed(rows, lake.read("forgery_audit", ForgeryAudit, **keys))


def with_forged_failed(rows: pa.Table, audits: list[ForgeryAudit]) -> pa.Table:
    """Return the rows with each forged pass changed to a failure.

    Outcome, detail, reason and number of passed cases of a forged pass change.
    """
    forged = {_key(audit): audit for audit in audits if audit.outcome is AuditOutcome.FORGED}
    if not forged:
        return rows
    places = list(zip(*(rows[name].to_pylist() for name in _KEY), strict=True))
    forged_rows = {at: forged[key] for at, key in enumerate(places) if key in forged}
    for name in ("outcome", "detail", "reason", "n_passed"):
        values = rows[name].to_pylist()
        for at, audit in forged_rows.items():
            values[at] = _failed_value(name, values[at], audit)
        at_column = rows.schema.get_field_index(name)
        rows = rows.set_column(
            at_column, rows.schema.field(name), pa.array(values, rows.schema.field(name).type)
        )
    return rows


def _failed_value(column: str, value: object, audit: ForgeryAudit) -> object:
    if column == "n_passed":
        return None if value is None else 0
    return {"outcome": Outcome.FAILED.value, "reason": FailureReason.FORGED.value}.get(
        column, forged_detail(audit)
    )


def forged_detail(audit: ForgeryAudit) -> str:
    """Return the detail of a forged pass, as in the warehouse's view `test_verdicts`."""
    return f"forged: the tests also pass with {audit.decoy}"


def _key(audit: ForgeryAudit) -> tuple[str, int, str, str]:
    return audit.episode_id, audit.turn, audit.instruction_id, audit.verdict_id

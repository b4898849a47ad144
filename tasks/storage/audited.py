"""Test verdicts as the audit leaves them: a convicted pass is a failure. The lake's own rows of `test_verdicts` stay plain."""

import pyarrow as pa

from schemas.audit import AuditOutcome, ForgeryAudit
from schemas.lake.rows import from_arrow
from schemas.verdict import FailureReason, Outcome, TestVerdict
from tasks.storage.parquet_store import Lake, listing_again

_KEY = ("episode_id", "turn", "instruction_id", "verdict_id")


def read_verdicts(lake: Lake, **keys: str) -> list[TestVerdict]:
    """Return a run's test verdicts; convicted passes are failed with the reason `forged`."""
    return from_arrow(verdict_table(lake, **keys), TestVerdict)


def verdict_table(lake: Lake, **keys: str) -> pa.Table:
    """Return the same as rows of the table `test_verdicts`."""
    rows = listing_again(
        lambda: lake.read_arrow("test_verdicts", lake.parts("test_verdicts", **keys))
    )
    return with_convictions(rows, lake.read("forgery_audit", ForgeryAudit, **keys))


def with_convictions(rows: pa.Table, audits: list[ForgeryAudit]) -> pa.Table:
    """Return the rows with the convicted passes failed: outcome, detail, reason and number of passed cases change."""
    forged = {_key(audit): audit for audit in audits if audit.outcome is AuditOutcome.FORGED}
    if not forged:
        return rows
    places = list(zip(*(rows[name].to_pylist() for name in _KEY), strict=True))
    convicted = {at: forged[key] for at, key in enumerate(places) if key in forged}
    for name in ("outcome", "detail", "reason", "n_passed"):
        values = rows[name].to_pylist()
        for at, audit in convicted.items():
            values[at] = _overlaid(name, values[at], audit)
        at_column = rows.schema.get_field_index(name)
        rows = rows.set_column(
            at_column, rows.schema.field(name), pa.array(values, rows.schema.field(name).type)
        )
    return rows


def _overlaid(column: str, plain: object, audit: ForgeryAudit) -> object:
    if column == "n_passed":
        return None if plain is None else 0
    return {"outcome": Outcome.FAILED.value, "reason": FailureReason.FORGED.value}.get(
        column, forged_detail(audit)
    )


def forged_detail(audit: ForgeryAudit) -> str:
    """Return the detail of a convicted pass. The warehouse's view `test_verdicts` has the same words."""
    return f"forged: the tests also pass with {audit.decoy}"


def _key(audit: ForgeryAudit) -> tuple[str, int, str, str]:
    return audit.episode_id, audit.turn, audit.instruction_id, audit.verdict_id

"""Work of a run as text: what it reused, what it paid for, and why it had new work."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flows.text.records import markdown_table
from schemas.audit import AuditCounts
from schemas.lake.records import RunRecord
from schemas.night.work import Difference, RunWork
from schemas.outside.display import plain_difference, plain_line
from schemas.run import RunSpec
from tasks.planning.why_rerun import compare, find_run
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

if TYPE_CHECKING:
    from tasks.planning.reporting.report import RunReport


REASONS_NAMED = 4
_SHOWN = 60
"""Maximum characters of a field's name, and of a value, in the line about a difference."""
_CELL = 1000
"""Maximum characters of a Markdown cell: enough for `REASONS_NAMED` reasons."""
_ENDINGS = {
    "status": "its last invocation was {before}",
    "owed": "pending episodes: {after}",
}
"""Texts about the run's last invocation, by field. They come before all differences."""


def work_lines(work: RunWork) -> Iterator[str]:
    """Yield two to four lines: reused episodes, cost, requests, and the reason for new work."""
    yield f"episodes: {_episodes(work)}"
    if work.is_reused:
        yield "nothing was pending"
        return
    judged = (
        f"; judgements: {work.judgements_asked} requested, {work.judgements_reused} reused"
        if work.judgements_asked or work.judgements_reused
        else ""
    )
    yield (
        f"paid: {_paid(work)}; programs: {work.programs_run} run, {work.programs_reused} verdicts"
        f" reused{judged}"
    )
    if work.requests is not None:
        yield f"requests: {work.requests.text}"
    yield f"why: {reason(work)}"


def audit_line(counts: AuditCounts) -> str | None:
    """Return the audit's result in one line, or None if nothing was audited."""
    if not counts.n_audited and not counts.n_without_decoy:
        return None
    outcomes = f"{counts.n_forged} forged, {counts.n_suspected} suspected"
    rest = f"; {counts.n_without_decoy} without a decoy" if counts.n_without_decoy else ""
    cost = f"{counts.n_runs} sandbox runs, {counts.seconds:.1f} s"
    return f"audit: {counts.n_audited} passes audited in {cost}: {outcomes}{rest}"


def work_markdown(works: Sequence[RunWork]) -> str:
    """Return a Markdown table of the runs' work, one row for each run. All cells are escaped."""
    if not works:
        return ""
    columns = ("run", "episodes", "paid", "requests", "programs run", "verdicts reused", "why")
    rows = [
        (
            w.title,
            _episodes(w),
            _paid(w),
            "unknown" if w.requests is None else w.requests.text,
            str(w.programs_run),
            str(w.programs_reused),
            reason(w),
        )
        for w in works
    ]
    return markdown_table(columns, rows, _CELL)


def withheld_markdown(reports: Sequence["RunReport"]) -> str:
    """Return a Markdown table of the withheld runs with their reasons. All cells are escaped."""
    withheld = [report for report in reports if report.status == "withheld"]
    if not withheld:
        return ""
    rows = [
        (r.title, r.reason or "", f'parley release {r.run_id[:12]} --because "..."')
        for r in withheld
    ]
    return markdown_table(("withheld run", "reason", "to publish it all the same"), rows, _CELL)


def work_fields(work: RunWork) -> dict[str, object]:
    """Return the JSON fields about a run's reused and paid work."""
    names = (
        *("n_reused", "n_resumed", "n_turns_kept", "n_new", "input_tokens", "output_tokens"),
        *("n_unknown_tokens", "usd", "usd_hourly", "requests", "reused_from", "programs_run"),
        *("programs_reused", "judgements_asked", "judgements_reused", "compared_with", "why"),
    )
    fields: dict[str, object] = work.model_dump()
    return {name: fields[name] for name in names} | {"reused_from": dict(work.reused_from)}


def _episodes(work: RunWork) -> str:
    parts = [f"{work.n_reused} of {work.n_episodes} reused{_sources(work)}"]
    if work.n_resumed:
        parts.append(f"{work.n_resumed} resumed with {work.n_turns_kept} stored answers")
    return ", ".join([*parts, f"{work.n_new} played"])


def _sources(work: RunWork) -> str:
    if not work.reused_from:
        return ""
    own = [f"{n} from earlier in this run" for run, n in work.reused_from if run == work.run_id]
    others = [f"{n} paid by run {run[:12]}" for run, n in work.reused_from if run != work.run_id]
    more = [f"{len(others) - REASONS_NAMED} more runs"] if len(others) > REASONS_NAMED else []
    return f" ({', '.join([*own, *others[:REASONS_NAMED], *more])})"


def _paid(work: RunWork) -> str:
    tokens = f"{work.input_tokens} tokens in and {work.output_tokens} out"
    if work.n_unknown_tokens:
        is_unknown = not work.input_tokens and not work.output_tokens
        tokens = "unknown tokens" if is_unknown else tokens
        tokens += f" (no counts for {work.n_unknown_tokens} answers)"
    text = f"{work.n_paid} model calls, {tokens}"
    if work.n_paid and work.usd is not None:
        text += f", {work.usd:.6g} USD"
    if work.usd_hourly is not None:
        text += f", {work.usd_hourly:.6g} USD for server hours"
    return text


def reason(work: RunWork) -> str:
    """Return one line: why the run had new work, or that nothing was pending."""
    if work.is_reused:
        return "nothing was pending"
    if work.compared_with is None:
        return "the first run of this model on this setting"
    differ = "; ".join(difference_text(d) for d in work.why[:REASONS_NAMED])
    if len(work.why) > REASONS_NAMED:
        differ += f"; and {len(work.why) - REASONS_NAMED} more (parley why-rerun)"
    if work.compared_with == work.run_id:
        if work.why and work.why[0].field in _ENDINGS:
            return differ
        changed = f"changed since its last invocation: {differ}"
        return changed if differ else "nothing changed since its last invocation"
    return (
        f"differs from the previous run of this model and setting ({work.compared_with[:12]}) in"
        f" {differ or 'nothing'}"
    )


def difference_text(difference: Difference) -> str:
    """Return a difference in one line."""
    if difference.field in _ENDINGS:
        return _ENDINGS[difference.field].format_map(dict(difference))
    before, after = plain_difference(difference.before, difference.after, _SHOWN)
    return f"{plain_line(difference.field, _SHOWN)}: {before!r} -> {after!r}"


_SHOWN_DIFFERENCES = 500
"""Maximum characters of a value in the table of differences.

Of a longer value, the table shows the part around the difference; `--json` prints the whole value.
"""


def explain(home: Home, run_a: str, run_b: str | None = None, *, json_output: bool = False) -> None:
    """Print the fields in which two runs differ.

    For a single run, print the changes because of which its latest invocation had work to do.

    Raises:
        UsageError: an id matches no run, or several.
    """
    lake = Lake(home.lake)
    before = find_run(lake, run_a)
    after = before if run_b is None else find_run(lake, run_b)
    if before.run_id == after.run_id:
        differences, title = before.work.why if before.work else (), _own_title(before)
    else:
        outside = {**dict(after.state), "parley_version": after.parley_version}
        differences = compare(lake, before, RunSpec.model_validate_json(after.spec_json), outside)
        title = f"Run {after.run_id[:12]} compared with run {before.run_id[:12]}"
    if json_output:
        print(json.dumps([difference.model_dump() for difference in differences]))
    elif not differences:
        print(f"{title}: no field differs.")
    else:
        from flows.text.records import print_rows

        print(f"{title}:")
        rows = [
            (d.field, *plain_difference(d.before, d.after, _SHOWN_DIFFERENCES), d.reruns)
            for d in differences
        ]
        print_rows("", ("field", "before", "after", "invalidates"), rows)
        print(
            "Invalidating a layer invalidates all later layers. Order: dialogues, tests,"
            " judgements, scores."
        )


def _own_title(record: RunRecord) -> str:
    name, work = f"Run {record.run_id[:12]}", record.work
    if work is None or work.compared_with is None:
        return (
            f"{name}, {record.started_at}: the first run of this model on this setting, so"
            " nothing could be reused"
        )
    if work.compared_with == record.run_id:
        return f"{name}, resumed at {record.started_at}, compared with its earlier state"
    return (
        f"{name}, started at {record.started_at}, compared with the previous run of its model and"
        f" setting, {work.compared_with[:12]}"
    )

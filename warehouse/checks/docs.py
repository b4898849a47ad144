"""Data Docs: Great Expectations' validation pages, one folder per run, with an index.

The pages show values of tables, which are untrusted. Great Expectations leaves most of them
unescaped, so this module escapes them before rendering. A content policy in each page forbids
scripts and external resources. Links to style sheets and scripts on other hosts are removed: a page
looks the same offline, and opening it contacts no other host.
"""

import html
import json
import os
import re
from collections.abc import Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.outside.display import plain_line, plain_text
from warehouse.checks.rule import CheckContext
from warehouse.connect import SITE, site_index

if TYPE_CHECKING:
    from warehouse.checks.validation import RuleResult

_N_SHOWN = 20
"""Number of unexpected rows shown per rule."""
_REPORTS = ("partial_unexpected_list", "partial_unexpected_counts", "partial_unexpected_index_list")
_LISTS = ("unexpected_list", "unexpected_index_list", *_REPORTS)
_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
    "'unsafe-inline'; img-src data:\">"
)
_LINKED_STYLE = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem;
  padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: .4rem 0; }
th, td { border: 1px solid #ccc; padding: .3rem .5rem; text-align: left; }
td { vertical-align: top; overflow-wrap: anywhere; } hr { border: 0; border-top: 1px solid #ddd; }
.fa-check-circle::before { content: "passed"; color: #17713a; }
.fa-times::before { content: "failed"; color: #b3261e; }
.fa-exclamation-triangle::before { content: "crashed"; color: #9a6700; }
"""
_TEMPLATES = {
    "top_navbar.j2": (
        '<nav><a href="index.html">All tables of this run</a> / {{ expectation_suite_name }}</nav>'
    ),
    "data_docs_custom_styles.css": _STYLE,
    **dict.fromkeys(("data_docs_default_styles.css", "js_script_imports.j2", "favicon.j2"), ""),
    **dict.fromkeys(("page_action_card.j2", "cloud-footer.j2"), ""),
}
"""Replacements for Great Expectations' templates, which need scripts and images of other hosts."""


def docs_path(context: CheckContext, table: str) -> str | None:
    """Return the path of a table's page, as stored in results.

    The path is relative to the folder that contains `docs_dir`. None: no docs are written.
    """
    return (
        None
        if context.docs_dir is None
        else f"{context.docs_dir.name}/{context.run_id}/{table}.html"
    )


def index_path(docs_dir: Path, run_id: str) -> str | None:
    """Return the path of a run's index, relative to the folder that contains `docs_dir`.

    None: the run has no docs.
    """
    return (
        f"{docs_dir.name}/{run_id}/index.html"
        if (docs_dir / run_id / "index.html").is_file()
        else None
    )


def write_page(table: str, results: "Sequence[RuleResult]", context: CheckContext) -> Path:
    """Write a table's page and the run's index of all pages written so far.

    Returns:
        The path of the table's page.

    Raises:
        ValueError: the context has no `docs_dir`.
    """
    if context.docs_dir is None:
        raise ValueError(f"no Data Docs for table {table}: the check context has no docs_dir")
    folder = context.docs_dir / context.run_id
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{table}.html"
    _write(page, _render(table, results, context))
    failed = [f.rule.name for f in results if not f.result.success]
    summary = {
        "table": table,
        "checked_at": context.checked_at,
        "n": len(results),
        "failed": failed,
    }
    _write(folder / f"{table}.json", json.dumps(summary))
    _write(folder / "index.html", _index(folder, context))
    return page


def _write(path: Path, text: str) -> None:
    scratch = path.with_suffix(f"{path.suffix}.{os.getpid()}.tmp")
    scratch.write_text(text, encoding="utf-8", errors="replace")
    os.replace(scratch, path)


def _render(table: str, results: "Sequence[RuleResult]", context: CheckContext) -> str:
    from great_expectations.core import ExpectationSuiteValidationResult, RunIdentifier
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer

    n_passed = sum(bool(f.result.success) for f in results)
    result = ExpectationSuiteValidationResult(
        success=n_passed == len(results),
        results=[_shown(f.result) for f in results],
        suite_name=table,
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": n_passed,
            "unsuccessful_expectations": len(results) - n_passed,
            "success_percent": 100 * n_passed / len(results) if results else None,
        },
        meta={
            "run_id": RunIdentifier(
                run_name=html.escape(context.run_id), run_time=context.checked_at
            )
        },
    )
    rendered = ValidationResultsPageRenderer(run_info_at_end=True).render(result)
    page = _LINKED_STYLE.sub("", _view().render(rendered, show_how_to_buttons=False))
    return page.replace("<head>", f"<head>{_POLICY}", 1)


@cache
def _view() -> Any:
    """Return the page view with Parley's templates.

    One view serves all pages, since a new one compiles every template again.
    """
    from great_expectations.render.view.view import DefaultJinjaPageView
    from jinja2 import ChoiceLoader, DictLoader

    class EscapedOnce(DefaultJinjaPageView):
        """Environment that escapes nothing: every text is escaped already."""

        @staticmethod
        def _escape_template_param_value(value: Any) -> Any:
            return value

    view = EscapedOnce()
    view.env.loader = ChoiceLoader(
        [DictLoader(_TEMPLATES), *([view.env.loader] if view.env.loader else [])]
    )
    return view


def _shown(result: Any) -> Any:
    """Return a copy of a result, cut to the rows that a page shows, with every text escaped."""
    shown = copy(result)
    entries = {
        key: value
        for key, value in (result.result or {}).items()
        if key != "unexpected_index_query"
    }
    shown.result = _escape(
        {
            key: value[:_N_SHOWN] if key in _LISTS and value else value
            for key, value in entries.items()
        }
    )
    shown.exception_info = _escape(result.exception_info)
    return shown


def _escape(value: Any) -> Any:
    if isinstance(value, str):
        return html.escape(plain_text(value))
    if isinstance(value, dict):
        return {_escape(key): _escape(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_escape(item) for item in value)
    return value


def _index(folder: Path, context: CheckContext) -> str:
    summaries = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    ]
    lines = [
        f'<tr><td><a href="{html.escape(s["table"])}.html">{html.escape(s["table"])}</a></td>'
        f"<td>{s['n'] - len(s['failed'])} of "
        f"{s['n']}</td><td>{html.escape(', '.join(s['failed'])) or 'none'}</td>"
        f"<td>{html.escape(s['checked_at'])}</td></tr>"
        for s in summaries
    ]
    title = html.escape(plain_line(f"{context.benchmark} {context.model} run {context.run_id}"))
    head = f'{_POLICY}<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    columns = "".join(
        f"<th>{name}</th>" for name in ("table", "passed", "failed", "checked at (UTC)")
    )
    has_site = site_index(folder.parent.parent) is not None
    link = f'<p><a href="../../{SITE}/index.html">Published results</a></p>' if has_site else ""
    return (
        f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>'
        f"<h1>Quality checks</h1><p>{title}</p>{link}<table><tr>{columns}</tr>"
        f"{''.join(lines)}</table></body></html>\n"
    )

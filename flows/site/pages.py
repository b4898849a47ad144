"""Templates and paths of the site's pages.

All values of the templates are untrusted, so they are cleaned and escaped.
"""

import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.content_id import content_id
from schemas.outside.display import dialogue_name, plain_text

if TYPE_CHECKING:
    from jinja2 import Environment

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}")
FIRST_ROWS = 500
"""Rows of a long table that are shown at first: a browser takes seconds to lay out thousands. A
button shows the rest."""
SHORT = 12
"""Characters of a run id in the name of its page."""


@cache
def environment() -> "Environment":
    """Return the environment of the package's templates."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("flows.site"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["first_rows"] = FIRST_ROWS
    templates.filters |= {
        "number": number,
        "short": lambda text: text[:SHORT],
        "name": file_name,
        "dialogue": lambda row: dialogue_name(row["problem_id"], row["dialog_id"]),
        "day": lambda text: text[:16],
        "seconds": partial(_fixed, digits=1),
        "dollars": partial(_fixed, digits=6),
    }
    return templates


def render(template: str, **values: Any) -> str:
    """Return the HTML of a page."""
    return environment().get_template(f"{template}.html").render(values)


def write(path: Path, template: str, **values: Any) -> None:
    """Write a page and its folder. The value `up` is the path from the page to the site's root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(template, **values), encoding="utf-8")


def file_name(text: str) -> str:
    """Return the file name of an id's page: the id if it is a safe name, else its digest."""
    return text if _SAFE_NAME.fullmatch(text) else content_id(text)


def run_page(run_id: str) -> str:
    """Return the path of a run's page."""
    return f"runs/{run_id[:SHORT]}.html"


def comparison_page(old: str, new: str) -> str:
    """Return the path of the page that compares two runs."""
    return f"compared/{old[:SHORT]}-{new[:SHORT]}.html"


def history_page(family: str) -> str:
    """Return the path of a family's page."""
    return f"history/{file_name(family)}.html"


def night_page(night_id: str) -> str:
    """Return the path of a night's page."""
    return f"nights/{file_name(night_id)}.html"


def address(site_url: str, page: str) -> str:
    """Return the address of a page.

    Args:
        site_url: address of the site's folder, with or without a slash at its end.
        page: path of the page below it.
    """
    return f"{site_url.rstrip('/')}/{page}"


def number(value: Any) -> str:
    """Return a number as text. None is a dash, not 0."""
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _fixed(value: Any, digits: int) -> str:
    return number(value) if value is None else f"{value:.{digits}f}"


def _plain(value: Any) -> Any:
    """Return a value without control, format and bidirectional characters. None is a dash."""
    if value is None:
        return "–"
    return plain_text(value) if type(value) is str else value

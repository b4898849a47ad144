"""Paths of the site's pages, and their addresses below the configured `site_url`."""

from flows.site.pages import SHORT, file_name


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


def night_address(site_url: str | None, night_id: str) -> str | None:
    """Return the address of a night's page, or None without a site."""
    return address(site_url, night_page(night_id)) if site_url else None


def address(site_url: str, page: str) -> str:
    """Return the address of a page.

    Args:
        site_url: address of the site's folder, with or without a slash at its end.
        page: path of the page below it.
    """
    return f"{site_url.rstrip('/')}/{page}"

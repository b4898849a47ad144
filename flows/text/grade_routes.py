"""How the rows of a dataset are graded (project, versions, Python, test runner), as text."""

from collections import defaultdict
from collections.abc import Sequence

from schemas.errors import DataUnavailable, UsageError
from tasks.benchmarks.grade_routes import GradeRoute
from tasks.benchmarks.public_data import PublicDataset
from tasks.benchmarks.registry import BENCHMARKS
from tasks.datasets.folders import DataFolders, State
from tasks.storage.home import Home

COLUMNS = ("project", "versions", "Python", "runner", "rows", "gradable")


def routes_of(dataset: PublicDataset, home: Home) -> Sequence[GradeRoute]:
    """Return how each row of a dataset is graded.

    The facts come from the dataset's files if these are on this machine, else from bundled facts.

    Raises:
        UsageError: the benchmark grades all answers in the same way.
        DataUnavailable: the files are not on this machine, and there are no bundled facts.
    """
    list_routes = BENCHMARKS.load(dataset.benchmark).data.grade_routes
    if list_routes is None:
        raise UsageError(
            f"{dataset.full_name}: all rows are graded in the same way, so --routes has no"
            " effect. Remove it"
        )
    folders = DataFolders.of(home)
    is_here = folders.state(dataset) in (State.FETCHED, State.BROUGHT)
    routes = list_routes(dataset.name, folders.folder(dataset) if is_here else None)
    if routes is None:
        raise DataUnavailable(
            f"{dataset.full_name}: its files are not on this machine. Run `parley data get"
            f" {dataset.full_name}` first"
        )
    return routes


def table_rows(routes: Sequence[GradeRoute]) -> list[tuple[str, ...]]:
    """Return a table row for each route."""
    return [
        (
            route.project or "(no route)",
            _span(route.versions),
            route.python,
            " ".join(route.command) or route.runner,
            f"{len(route.problem_ids):,}",
            f"{route.n_gradable:,}",
        )
        for route in routes
    ]


def summary_lines(routes: Sequence[GradeRoute]) -> list[str]:
    """Return lines with the totals, and with the rows that cannot be graded, grouped by reason."""
    n_rows = sum(len(route.problem_ids) for route in routes)
    n_routed = sum(len(route.problem_ids) for route in routes if route.runner)
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for route in routes:
        for name, reason in route.exceptions.items():
            by_reason[reason].append(name)
    n_gradable = sum(route.n_gradable for route in routes)
    return [
        f"{n_rows:,} rows: {n_routed:,} have a runner, {n_gradable:,} are gradable without a"
        " network",
        *(
            f"  not gradable ({len(names)}): {reason}: {', '.join(names)}"
            for reason, names in by_reason.items()
        ),
    ]


def _span(versions: Sequence[str]) -> str:
    return (
        versions[0]
        if len(versions) == 1
        else f"{versions[0]} to {versions[-1]}"
        if versions
        else ""
    )

"""Commands that only read: show, sql, list, report, why-rerun."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from schemas.display import plain_line
from schemas.errors import UsageError
from tasks.storage.home import find_home

Json = Annotated[bool, typer.Option("--json", help="Print one array of objects.")]


class Listing(StrEnum):
    BENCHMARKS = "benchmarks"
    MODELS = "models"
    METRICS = "metrics"
    RUNS = "runs"
    EPISODES = "episodes"
    SANDBOXES = "sandboxes"


def add_to(app: typer.Typer) -> None:
    """Register this module's commands."""
    app.command("show")(show)
    app.command("sql")(sql)
    app.command("list")(list_things)
    app.command("report")(report)
    app.command("why-rerun")(why_rerun)


def show(episode: Annotated[str, typer.Argument(help="An episode's id, or its beginning (`parley list episodes`).")]) -> None:
    """Print one episode: prompts, answers, verdicts and test output."""
    from flows.text.transcript import transcript_text

    print(transcript_text(find_home(), episode))


def sql(
    query: Annotated[str, typer.Argument(help="A SELECT; `SHOW TABLES` lists the tables.")],
    json_output: Json = False,
) -> None:
    """Query the warehouse in SQL (DuckDB's dialect). A query cannot change anything."""
    from warehouse.connect import query as ask

    columns, rows = ask(find_home().path, query)
    if json_output:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str))
        return
    from flows.text.results import print_rows

    print_rows("", columns, rows)
    print(f"{len(rows)} rows")


def list_things(
    what: Annotated[Listing, typer.Argument(help="What to list.")],
    run: Annotated[str | None, typer.Option(help="List only episodes of this run: its id, or its beginning.")] = None,
    first: Annotated[bool, typer.Option("--first", help="Print only the first name, for scripts.")] = False,
    json_output: Json = False,
) -> None:
    """List all things of one kind. Benchmarks, metrics and sandboxes come from the installation, the others from the home."""
    from flows.text.listings import listing

    columns, rows = listing(find_home(), what.value, run)
    if first:
        if not rows:
            raise UsageError(f"there are no {what.value}")
        print(plain_line(str(rows[0][0]), 1000))
    elif json_output:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str))
    else:
        from flows.text.results import print_rows

        print_rows("", columns, rows)


def why_rerun(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="A run's id, or its beginning (`parley list runs`).")],
    run_b: Annotated[
        str | None, typer.Argument(metavar="[RUN_B]", help="Another run's id. Without it: why RUN_A was worked on again.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Show why two runs differ, or why one was worked on again. Names each field, and the layers that it renews."""
    from flows.text.why import explain

    explain(find_home(), run_a, run_b, json_output=json_output)


def report(
    night: Annotated[str | None, typer.Option(help="A night's id, or its beginning; without it the latest.")] = None,
    json_output: Json = False,
) -> None:
    """Show how much of a night was reused or paid for, and why."""
    from flows.text.night import show_night

    show_night(find_home(), night, json_output=json_output)

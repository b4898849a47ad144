"""Commands that only read: show, sql, list, report, why-rerun, agreement, compare, help."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.completion import names_of
from schemas.errors import UnknownName, UsageError
from schemas.outside.display import plain_line
from schemas.outside.hidden import hidden
from tasks.storage.home import find_home

_CSV = "Print comma-separated values, cells as stored: a spreadsheet may read one that begins with = as a formula."
Json = Annotated[bool, typer.Option("--json", help="Print one array of objects.")]


class Listing(StrEnum):
    """Kinds of things that `parley list` shows."""

    BENCHMARKS = "benchmarks"
    AGENTS = "agents"
    BUILDS = "builds"
    MODELS = "models"
    METRICS = "metrics"
    RUNS = "runs"
    EPISODES = "episodes"
    SANDBOXES = "sandboxes"
    TEMPLATES = "templates"


def add_to(app: typer.Typer) -> None:
    """Register this module's commands."""
    app.command("show")(show)
    app.command("sql")(sql)
    app.command("list")(list_things)
    app.command("report")(report)
    app.command("why-rerun")(why_rerun)
    app.command("agreement")(agreement)
    app.command("compare")(compare)
    app.command("help")(explain_topic)


def show(
    episode: Annotated[
        str,
        typer.Argument(
            help="An episode's id, or its beginning (`parley list episodes`).",
            autocompletion=names_of("episodes"),
        ),
    ],
) -> None:
    """Print one episode: prompts, answers, verdicts, test output. Steps have numbers, and rejected drafts are marked."""
    with hidden("numpy"):  # see `flows.text.listings`
        from flows.text.transcript import transcript_text

    print(transcript_text(find_home(), episode))


def sql(
    query: Annotated[
        str,
        typer.Argument(help="A SELECT (`SHOW TABLES` lists the tables), or @NAME: a saved query."),
    ],
    json_output: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help=_CSV)] = False,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Parquet file.")
    ] = None,
) -> None:
    """Query the warehouse in SQL (DuckDB's dialect). A query cannot change anything.

    `parley sql @failures` asks a saved query: a file `queries/failures.sql` of the home, or one that comes with Parley.
    """
    from flows.cli.asking import print_csv, statement_of, write_parquet

    if json_output + as_csv + (parquet is not None) > 1:
        raise UsageError("--json, --csv and --parquet exclude each other")
    home = find_home()
    statement = statement_of(home, query)
    if parquet is not None:
        print(f"{write_parquet(home, statement, parquet)} rows in {parquet}")
        return
    from warehouse.connect import query as ask

    columns, rows = ask(home.path, statement)
    if json_output:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str))
        return
    if as_csv:
        print_csv(columns, rows)
        return
    from flows.text.results import print_rows

    print_rows("", columns, rows, pager=True, unfolded=True)
    print(f"{len(rows)} rows")


def list_things(
    what: Annotated[Listing, typer.Argument(help="The kind of things to list.")],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Describe this benchmark or BENCHMARK.SETTING.",
            autocompletion=names_of("benchmarks"),
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="List only episodes of this run: its id, or its beginning.")
    ] = None,
    first: Annotated[
        bool, typer.Option("--first", help="Print only the first name, for scripts.")
    ] = False,
    json_output: Json = False,
) -> None:
    """List all things of one kind. Models, runs and episodes come from the home, the others from the installation."""
    from flows.text.benchmark_listing import described as benchmark_lines
    from flows.text.benchmark_listing import printed_rows as printed_benchmarks
    from flows.text.listings import listing, printed_listing, reason_lines

    if name is not None and what is not Listing.BENCHMARKS:
        raise UsageError(
            f"`parley list {what.value}` takes no name, only `parley list benchmarks` does: leave {name!r} out"
        )
    columns, rows = listing(find_home(), what.value, run)
    if name is not None:
        described = list(benchmark_lines(find_home(), name))
        rows = [row for row in rows if row[0] == name or row[0].startswith(f"{name}.")]
        if not (json_output or first):
            print("\n".join(described))
            return
    if first:
        if not rows:
            raise UsageError(f"there are no {what.value}")
        print(plain_line(str(rows[0][0]), 1000))
    elif json_output:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str))
    else:
        from flows.text.results import print_rows

        is_benchmarks = what is Listing.BENCHMARKS
        print_rows(
            "", *(printed_benchmarks(rows) if is_benchmarks else printed_listing(columns, rows))
        )
        if is_benchmarks:
            print("Options and further facts: `parley list benchmarks NAME`.")
        for line in reason_lines(columns, rows):
            print(line)


def why_rerun(
    run_a: Annotated[
        str,
        typer.Argument(
            metavar="RUN_A",
            help="A run's id, or its beginning (`parley list runs`).",
            autocompletion=names_of("runs"),
        ),
    ],
    run_b: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN_B]",
            help="Another run's id; if none is named, why RUN_A was worked on again.",
            autocompletion=names_of("runs"),
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Show why two runs differ, or why one was worked on again. Names each field, and the layers that it renews."""
    from flows.text.why import explain

    explain(find_home(), run_a, run_b, json_output=json_output)


def report(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NIGHT]",
            help="A night's id, or its beginning; the latest night if none is named.",
        ),
    ] = None,
    night: Annotated[str | None, typer.Option(help="The same as the argument NIGHT.")] = None,
    json_output: Json = False,
) -> None:
    """Show how much of a night was reused or paid for, and why."""
    from flows.text.night import show_night

    if name is not None and night is not None:
        raise UsageError(
            f"the night is named twice: {name} and --night {night}. Leave one of them out"
        )
    show_night(find_home(), night if name is None else name, json_output=json_output)


def agreement(
    rubric: Annotated[
        str | None, typer.Option(help="Show only this rubric; all rated rubrics if none is named.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Show how far people agree with each other and with judges.

    Reads the ratings that `parley import ratings` brought in. Prints Cohen's kappa, plain and quadratically weighted, with 95%
    intervals from a jackknife over episodes: for each pair of raters, and for each rater and the raters' consensus (the lower
    median of numbers, the most frequent word) against each judge. Rows of `all dimensions` pool a rubric's ratings, those of
    `all raters` also the raters': one kappa for the whole. `n` things were rated by both sides, `n_missing` by one alone.
    """
    from warehouse.connect import named_query

    columns, rows = named_query(find_home().path, "agreement")
    if rubric is not None and rubric not in (known := sorted({row[0] for row in rows})):
        raise UnknownName(
            "rated rubric", rubric, known, "`parley import ratings FILE.csv` brings ratings in"
        )
    rows = [row for row in rows if rubric in (None, row[0])]
    if json_output:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows]))
        return
    from flows.text.agreement import print_agreement

    print_agreement([dict(zip(columns, row, strict=True)) for row in rows])
    if not rows:
        print(
            "Nothing was rated by two people, or by a person and a judge. `parley import ratings FILE.csv` brings ratings in"
        )


def compare(
    old: Annotated[
        str,
        typer.Argument(
            help="A run's id or its beginning, or MODEL[@REVISION]: see `parley list runs`.",
            autocompletion=names_of("runs"),
        ),
    ],
    new: Annotated[
        str,
        typer.Argument(
            help="Another run's id, or another MODEL[@REVISION]: two models are compared on every setting that both have runs of."
        ),
    ],
    metric: Annotated[
        list[str] | None, typer.Option(help="Show only this metric; may be repeated.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Compare two runs, or two models, problem by problem.

    Shows each metric with its difference, the 95% interval of a bootstrap over problems, a test (McNemar or Wilcoxon) adjusted
    over the metrics, and the least difference that could have been found. Each night fills the tables `comparisons` and
    `history` alike.
    """
    from tasks.planning.reporting.publishing import judged_metrics, metric_directions
    from warehouse.comparison.asked import compare_named

    rows = compare_named(find_home().path, old, new, metric_directions(), judged_metrics())
    known = sorted({row["metric"] for row in rows})
    for name in metric or ():
        if name not in known:
            raise UnknownName(
                "metric", name, known, "`parley list metrics` shows all", of="both runs"
            )
    rows = [row for row in rows if not metric or row["metric"] in metric]
    if json_output:
        print(json.dumps(rows))
        return
    from flows.text.comparison import print_comparisons

    print_comparisons(rows)


def explain_topic(
    topic: Annotated[
        str | None, typer.Argument(help="Name of a page; without it, a list of them.")
    ] = None,
) -> None:
    """Print a how-to page, or the list of them. `parley COMMAND --help` explains a command."""
    from flows.text.topics import topic_text

    print(topic_text(topic))

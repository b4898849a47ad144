"""Read-only commands: show, sql, list, report, why-rerun, agreement, compare, help."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.options import names_of
from flows.text.records import as_records
from schemas.errors import UnknownName, UsageError
from schemas.outside.display import plain_line, plain_text
from schemas.outside.hidden import hidden
from tasks.storage.home import Home, find_home
from warehouse import sql_files
from warehouse.connect import connect, warehouse_path

_CSV = (
    "Print comma-separated values, unescaped: a spreadsheet may run cells that begin with = as"
    " formulas."
)
Json = Annotated[bool, typer.Option("--json", help="Print one array of objects.")]


Kind = Literal[
    "benchmarks",
    "agents",
    "builds",
    "models",
    "metrics",
    "runs",
    "episodes",
    "sandboxes",
    "templates",
]
"""Kind of items that `parley list` shows."""


def show(
    episode: Annotated[
        str,
        typer.Argument(
            help="Episode to print: an id, or its first characters (`parley list episodes`).",
            autocompletion=names_of("episodes"),
        ),
    ],
) -> None:
    """Print one episode: prompts, answers, verdicts and ratings.

    Steps are numbered, and rejected drafts are marked.
    """
    with hidden("numpy"):  # saves its import time, as in `flows.text.listings`
        from flows.text.transcript import transcript_text

    print(transcript_text(find_home(), episode))


def sql(
    query: Annotated[
        str,
        typer.Argument(
            help="A SELECT statement, .describe TABLE, or @NAME for a saved query. `SHOW TABLES`"
            " lists all tables."
        ),
    ],
    json_output: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help=_CSV)] = False,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the rows to a Parquet file.")
    ] = None,
) -> None:
    """Query the warehouse in SQL (DuckDB dialect, read-only).

    `parley sql ".describe results"` prints the columns of a table with types and descriptions.
    `parley sql @failures` runs a saved query: `queries/failures.sql` in Parley's home, or a query
    bundled with Parley.
    """
    from flows.cli.commands.read import print_csv, statement_of, write_parquet

    if json_output + as_csv + (parquet is not None) > 1:
        raise UsageError("--json, --csv and --parquet exclude each other. Pass only one of them")
    home = find_home()
    statement = statement_of(home, query)
    if parquet is not None:
        print(f"{write_parquet(home, statement, parquet)} rows in {parquet}")
        return
    from warehouse.connect import query as run_query

    columns, rows = run_query(home.path, statement)
    if json_output:
        print(json.dumps(as_records(columns, rows), default=str))
        return
    if as_csv:
        print_csv(columns, rows)
        return
    from flows.text.records import print_rows

    print_rows("", columns, rows, pager=True, unfolded=True)
    print(f"{len(rows)} rows")


def list_things(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="Kind of items to list.")],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="With `benchmarks`: describe this BENCHMARK or BENCHMARK.SETTING.",
            autocompletion=names_of("benchmarks"),
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="With `episodes`: list only those of this run (an id, or its first characters)."
        ),
    ] = None,
    first: Annotated[
        bool,
        typer.Option("--first", help="Print only the name in the first row. Useful in scripts."),
    ] = False,
    json_output: Json = False,
) -> None:
    """List all items of one kind.

    Models, runs and episodes come from Parley's home, all other kinds from the installation.
    """
    from flows.text.listings import described as benchmark_lines
    from flows.text.listings import listing, printed_tables, reason_lines

    if name is not None and kind != "benchmarks":
        raise UsageError(f"`parley list {kind}` takes no name. Remove {name!r}")
    if run is not None and kind != "episodes":
        raise UsageError(f"`parley list {kind}` takes no run. Remove --run {run!r}")
    columns, rows = listing(find_home(), kind, run)
    if name is not None:
        described = list(benchmark_lines(find_home(), name))
        rows = [row for row in rows if row[0] == name or row[0].startswith(f"{name}.")]
        if not (json_output or first):
            print("\n".join(described))
            return
    if first:
        if not rows:
            raise UsageError(f"there are no {kind} in {find_home().path}")
        print(plain_line(str(rows[0][0]), 1000))
    elif json_output:
        print(json.dumps(as_records(columns, rows), default=str))
    else:
        from flows.text.records import print_rows

        for title, heads, cells in printed_tables(kind, columns, rows):
            print_rows(title, heads, cells)
        if kind == "benchmarks":
            print("`parley list benchmarks NAME` shows the options and details of a benchmark.")
        for line in reason_lines(columns, rows):
            print(line)


def why_rerun(
    run_a: Annotated[
        str,
        typer.Argument(
            metavar="RUN_A",
            help="Run: an id, or its first characters (`parley list runs`).",
            autocompletion=names_of("runs"),
        ),
    ],
    run_b: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN_B",
            help="Run to compare with. Default: RUN_A itself, before its latest invocation.",
            autocompletion=names_of("runs"),
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Show why two runs differ, or why a run had to be repeated.

    Prints each field that differs, and which layer of results (dialogues, tests, judgements,
    scores) must be computed again because of it.
    """
    from flows.text.work import explain

    explain(find_home(), run_a, run_b, json_output=json_output)


def report(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NIGHT",
            help="Night to report: an id, or its first characters. Default: the latest night.",
        ),
    ] = None,
    night: Annotated[str | None, typer.Option(help="Same as the argument NIGHT.")] = None,
    json_output: Json = False,
) -> None:
    """Show which work of a night was reused or paid for, and why."""
    from flows.text.night import show_night

    if name is not None and night is not None:
        raise UsageError(
            f"the night is named twice: {name} and --night {night}. Remove one of them"
        )
    show_night(find_home(), night if name is None else name, json_output=json_output)


def agreement(
    rubric: Annotated[
        str | None, typer.Option(help="Show only this rubric. Default: all rated rubrics.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Show how far people agree with each other and with judges.

    Reads the ratings that `parley import ratings` stored. Prints Cohen's kappa, unweighted and
    quadratically weighted, with 95% jackknife intervals over episodes: for each pair of raters, and
    for each rater and the raters' consensus against each judge. The consensus is the lower median
    of numbers, or the most frequent word. Rows `all dimensions` pool the dimensions of a rubric;
    rows `all raters` also pool the raters. `n` counts the items that both sides of a row rated,
    `missing` those that only one side rated.
    """
    from warehouse.connect import named_query

    columns, rows = named_query(find_home().path, "agreement")
    if rubric is not None and rubric not in (rubrics := sorted({row[0] for row in rows})):
        raise UnknownName(
            "rated rubric", rubric, rubrics, "`parley import ratings FILE.csv` imports ratings"
        )
    records = as_records(columns, (row for row in rows if rubric in (None, row[0])))
    if json_output:
        print(json.dumps(records))
        return
    from flows.text.comparison import print_agreement

    print_agreement(records)
    if not records:
        print(
            "No item was rated by two people, or by a person and a judge. Import ratings with"
            " `parley import ratings FILE.csv`."
        )


def compare(
    old: Annotated[
        str,
        typer.Argument(
            help="Run (an id, or its first characters), or MODEL[@REVISION]. `parley list runs`"
            " shows both.",
            autocompletion=names_of("runs"),
        ),
    ],
    new: Annotated[
        str,
        typer.Argument(
            help="Run or MODEL[@REVISION] to compare with OLD. Two models are compared on every"
            " setting that both have runs of."
        ),
    ],
    metric: Annotated[
        list[str] | None, typer.Option(help="Show only this metric. Repeatable.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Compare two runs or two models, paired by problem.

    Prints for each metric the difference, its 95% bootstrap interval over problems, an adjusted
    p-value (McNemar or Wilcoxon) and the minimal detectable effect. Each night writes the same
    comparisons to the tables `comparisons` and `history`.
    """
    from tasks.planning.reporting.publishing import judged_metrics, metric_directions
    from warehouse.comparison.named_pairs import compare_named

    rows = compare_named(find_home().path, old, new, metric_directions(), judged_metrics())
    metrics = sorted({row["metric"] for row in rows})
    for name in metric or ():
        if name not in metrics:
            raise UnknownName(
                "metric", name, metrics, "`parley list metrics` shows all", of="both runs"
            )
    rows = [row for row in rows if not metric or row["metric"] in metric]
    if json_output:
        print(json.dumps(rows))
        return
    from flows.text.comparison import print_comparisons

    print_comparisons(rows)


def explain_topic(
    topic: Annotated[
        str | None, typer.Argument(help="Name of a page. Default: print the list of pages.")
    ] = None,
) -> None:
    """Print a how-to page, or the list of pages.

    For the options of a command, type `parley COMMAND --help`.
    """
    from flows.text.topics import topic_text

    print(topic_text(topic))


FOLDER = "queries"
"""Folder in Parley's home for saved queries (`NAME.sql`)."""


def statement_of(home: Home, query: str) -> str:
    """Return the SQL statement of a query argument: SQL, `@name`, or `.describe TABLE`.

    `@name` is a saved query. A file `queries/name.sql` in the home takes precedence over a bundled
    query of that name.

    Raises:
        UnknownName: no saved query has this name; the error lists all names.
        UsageError: the query begins with a dot, but is not `.describe TABLE`.
    """
    if query.startswith("."):
        from warehouse.descriptions import describing

        command, _, table = query.partition(" ")
        if command != ".describe" or not table.strip():
            raise UsageError(
                f"{query!r} is not a dot command: use `.describe TABLE` for the columns of a table"
            )
        return describing(home.path, table.strip())
    if not query.startswith("@"):
        return query
    own = {path.stem: path for path in sorted((home.path / FOLDER).glob("*.sql"))}
    name = query[1:]
    if name in own:
        return own[name].read_text(encoding="utf-8", errors="replace")
    bundled = sql_files.names("saved")
    if name not in bundled:
        remedy = f"To add one, write {home.path / FOLDER}/NAME.sql"
        raise UnknownName("saved query", name, sorted({*own, *bundled}), remedy)
    return sql_files.load("saved", name).statement


def print_csv(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Print comma-separated values. On a terminal, control characters are removed."""
    text = csv_text(columns, rows)
    print(plain_text(text) if sys.stdout.isatty() else text, end="")


def csv_text(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Return CSV text with a header line. NULL and empty text both become empty cells."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def write_parquet(home: Home, statement: str, out: Path) -> int:
    """Write a query's rows as Parquet with DuckDB's types, and return their number.

    An older file at `out` is replaced atomically.

    Raises:
        UsageError: there is no warehouse, DuckDB refuses the statement, or `out` is not writable.
    """
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tasks.storage.new_folder import replace_file

    try:
        with connect(home.path) as connection:
            relation = connection.sql(statement)
            if relation is None:
                raise UsageError("the statement returns no rows to write. Pass a SELECT")
            table = relation.to_arrow_table()
    except duckdb.Error as error:
        raise UsageError(f"SQL on {warehouse_path(home.path)}: {error}") from error
    data = pa.BufferOutputStream()
    pq.write_table(table, data)
    replace_file(out, data.getvalue().to_pybytes())
    return table.num_rows

"""Reference pages generated as Markdown: commands, configuration, tables, metrics, exit codes.

`docs/generate.py` adds these pages to the site.
"""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from schemas.base import field_texts
from schemas.lake.tables import TABLES
from warehouse.descriptions import texts
from warehouse.marts import Mart, collect_marts, plan_marts, refresh_marts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROOT = Path(__file__).resolve().parents[1]


def generators() -> dict[str, Any]:
    """Return path of a generated page of the reference -> function that returns its text."""
    return {
        "reference/cli.md": cli_page,
        "reference/configuration.md": configuration_page,
        "reference/role-keys.md": role_keys_page,
        "reference/tables.md": tables_page,
        "reference/results.md": results_page,
        "reference/metrics.md": metrics_page,
        "reference/exit-codes.md": exit_codes_page,
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Line ends and bars within cells are escaped."""
    cells = [
        [re.sub(r"\s+", " ", cell).replace("|", "\\|").strip() for cell in row] for row in rows
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells))


def cli_page() -> str:
    """Return the page of all commands: a table, then the arguments and options of each command."""
    from typer.main import get_command

    from flows.cli.app import app

    leaves = list(_commands(get_command(app), "parley"))
    rows = [
        (f"[`{name}`](#{name.replace(' ', '-')})", _first_line(command.help))
        for name, command in leaves
    ]
    parts = ["# Commands", "Every command has `--help`.", table(("command", "description"), rows)]
    for name, command in leaves:
        context = command.context_class(command, info_name=name)
        usage = " ".join((name, *command.collect_usage_pieces(context)))
        records = [
            (f"`{record[0]}`", _plain(record[1]))
            for p in command.params
            if not getattr(p, "hidden", False) and (record := p.get_help_record(context))
        ]
        about = textwrap.dedent(command.help or "").replace("\b", "").strip()
        parts += [f"## {name}", f"```text\n{usage}\n```", about]
        parts += [table(("argument or option", ""), records)] if records else []
    parts.append("`parley run` also has flags for the [keys of each role](role-keys.md).\n")
    return "\n\n".join(parts)


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
        return
    if command.invoke_without_command and name != "parley":
        yield name, command
    for word, subcommand in below.items():
        if not subcommand.hidden:
            yield from _commands(subcommand, f"{name} {word}")


def _first_line(text: str | None) -> str:
    return _plain((text or "").strip().split("\n\n")[0])


def _plain(text: str) -> str:
    """Escape characters outside of code that Markdown would read as a tag or emphasis."""
    return "".join(
        part if part.startswith("`") else re.sub(r"([<*])", r"\\\1", part)
        for part in re.split(r"(`[^`]*`)", text)
    )


def configuration_page() -> str:
    """Return the page of a night's configuration: all fields, with type, default, description."""
    from flows.night.config import NightlyConfig

    parts = [
        "# Configuration of a night",
        (
            "`parley nightly --config FILE` reads a YAML file. `nightly.yaml` in the repository "
            "is a complete example."
        ),
    ]
    for model in _models(NightlyConfig, {}):
        texts = {name: _plain(text) for name, text in field_texts(model).items()}
        rows = [
            (f"`{name}`", f"`{_type(field.annotation)}`", _default(field), texts.get(name, ""))
            for name, field in model.model_fields.items()
        ]
        about = _first_line(inspect.getdoc(model))
        parts += [f"## {model.__name__}", about, table(("field", "type", "default", ""), rows)]
    return "\n\n".join(parts) + "\n"


def _models(model: type[BaseModel], models: dict[type[BaseModel], None]) -> list[type[BaseModel]]:
    """Return a model and all models that its fields contain, without duplicates."""
    models.setdefault(model)
    for field in model.model_fields.values():
        for inner in _inner_models(field.annotation):
            if inner not in models:
                _models(inner, models)
    return list(models)


def _inner_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _inner_models(part)


def _type(annotation: Any) -> str:
    is_plain = isinstance(annotation, type) and not get_args(annotation)
    text = re.sub(
        r"\b(?:[a-z_]+\.)+(?=\w)", "", annotation.__name__ if is_plain else str(annotation)
    )
    return text.replace(" | None", "").replace(", ...]", "…]")


def _default(field: Any) -> str:
    if field.default_factory is not None:
        return "" if field.default_factory in (dict, list, tuple) else "the machine's"
    if field.default is PydanticUndefined:
        return "required"
    return "" if field.default in (None, (), "") else f"`{field.default}`"


def role_keys_page() -> str:
    """Return the page of the keys of each role of a run."""
    from tasks.planning.role_keys import key_table

    about = (
        "`--subject`, `--simulator`, `--judge` and `--embedder` take `SPEC[,KEY=VALUE…]`. Each"
        " key is also a flag of `parley run`."
        " Flags of other roles than the subject have the role's name as prefix"
        " (`--simulator-temperature`). A night's"
        " configuration file has the same keys."
        " The [how-to page](../how-to/roles.md) explains them."
    )
    return f"# Keys of a role\n\n{about}\n\n{key_table()}\n"


def tables_page() -> str:
    """Return the page of all Parquet tables with their columns, from the Arrow schemas."""
    parts = [
        "# Tables",
        "Each table is a folder of Parquet files in the lake, partitioned by its key columns. The"
        " warehouse also holds the table,"
        " unless this page says otherwise. [Result tables](results.md) are computed from these"
        " tables.",
    ]
    for name, table_type in sorted(TABLES.items()):
        described = texts(name)
        rows = [
            (
                f"`{field.name}`",
                f"`{_arrow(field.type)}`" + (" or NULL" if field.nullable else ""),
                _plain(described.get(field.name, "")),
            )
            for field in table_type.schema
        ]
        place = "" if table_type.is_loaded else " Only in the lake."
        keys = ", ".join(table_type.partition_by)
        about = (
            f"{_first_line(inspect.getdoc(table_type.model))} Version {table_type.version}, "
            f"partitioned by {keys}.{place}"
        )
        parts += [f"## {name}", _plain(about), table(("column", "type", ""), rows)]
    return "\n\n".join(parts) + "\n"


def _arrow(kind: Any) -> str:
    text = re.sub(r"item: | not null", "", str(kind))
    return text if len(text) < 50 else text.partition("<")[0] + "<…>"


def results_page() -> str:
    """Return the page of the warehouse's result tables, views and other tables, with columns."""
    with warehouse_of_nothing() as connection:
        about = connection.execute(
            "select table_name, comment from duckdb_tables() where not temporary union"
            " select view_name, comment from duckdb_views() where not internal and not "
            "temporary order by all"
        ).fetchall()
        columns = connection.execute(
            "select table_name, column_name, data_type, comment from duckdb_columns() where "
            "not internal"
            " and database_name = 'memory' order by column_index"
        ).fetchall()
    marts = {mart.table for mart in all_marts()}
    parts = ["# Tables of results", '`parley sql ".describe TABLE"` prints these columns, too.']
    for title, is_shown in (
        ("Results", marts.__contains__),
        ("Views and other tables", lambda name: name not in marts),
    ):
        parts.append(f"## {title}")
        for name, text in about:
            if is_shown(name) and name not in TABLES and not name.startswith("_"):
                rows = [
                    (f"`{c}`", f"`{_short(kind)}`", _plain(said or ""))
                    for t, c, kind, said in columns
                    if t == name
                ]
                parts += [f"### {name}", _plain(text or ""), table(("column", "type", ""), rows)]
    macros = [
        (f"`{path.stem}`", _plain(lines[0].removeprefix("--")))
        for path in sorted((ROOT / "warehouse/sql/ddl").glob("*.sql"))
        if (lines := path.read_text(encoding="utf-8").splitlines())
        and any(line.startswith("create macro") for line in lines)
    ]
    return "\n\n".join((*parts, "## Macros", table(("name", ""), macros))) + "\n"


def all_marts() -> tuple[Mart, ...]:
    """Return the marts of all installed benchmarks."""
    from tasks.benchmarks.registry import BENCHMARKS

    return collect_marts(
        [mart for name in BENCHMARKS.names() for mart in BENCHMARKS.load(name).results.marts]
    )


@contextmanager
def warehouse_of_nothing() -> Iterator["DuckDBPyConnection"]:
    """Open a warehouse in memory with all tables, views and marts, and no rows."""
    import duckdb

    from warehouse.intervals import register_intervals
    from warehouse.publication.migrate import create_tables

    with duckdb.connect() as connection:
        register_intervals(connection)
        create_tables(connection)
        connection.execute("begin")
        refresh_marts(connection, plan_marts(connection, all_marts()), (), ())
        connection.execute("commit")
        yield connection


def _short(kind: str) -> str:
    if len(kind) < 50:
        return kind
    return kind.partition("(")[0] + "(…)" + ("[]" if kind.endswith("[]") else "")


def metrics_page() -> str:
    """Return the page of all metrics, by family."""
    from tasks.metrics.registry import METRICS

    families: dict[str, list[Any]] = {}
    for name in METRICS.names():
        metric = METRICS.load(name)
        families.setdefault(metric.function.__module__.rpartition(".")[2], []).append(metric)
    parts = [
        "# Metrics",
        (
            "Each score has a metric and a version of it. Parley never compares scores of "
            "different versions."
        ),
    ]
    for family, metrics in sorted(families.items()):
        parts.append(f"## {family.replace('_', ' ').capitalize()}")
        for metric in metrics:
            better = {"higher": "Higher is better.", "lower": "Lower is better."}.get(
                metric.better, "Neither direction is better."
            )
            judged = " Needs a judge." if metric.judged else ""
            text = textwrap.indent(inspect.getdoc(metric.function) or "", "    ")
            parts += [f"### {metric.name}", f"Version {metric.version}. {better}{judged}", text]
    return "\n\n".join(parts) + "\n"


def exit_codes_page() -> str:
    """Return the page of exit codes, with the errors of each."""
    from flows.cli.app import app
    from schemas import errors

    codes = re.findall(r"(\d) ([^,.]+)", str(app.info.epilog).partition("Exit codes:")[2])
    meanings = [(f"**{code}**", _plain(text)) for code, text in codes]
    rows = [
        (str(kind.exit_code), f"`{kind.__name__}`", _first_line(inspect.getdoc(kind)))
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.ParleyError)
    ]
    return (
        f"# Exit codes\n\n{table(('code', 'meaning'), meanings)}\n\n"
        "## Errors\n\nAn error message states the value, the place and the"
        f" remedy.\n\n{table(('code', 'error', ''), sorted(rows))}\n"
    )

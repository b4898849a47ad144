"""Commands about public data: `parley data`, `parley data get`, `parley data show`."""

import json
import sys
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schemas.errors import DataUnavailable, UsageError
from schemas.outside.display import plain_text
from tasks.storage.home import find_home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.benchmarks.public_data import PublicDataset
    from tasks.datasets.fetching import Fetched
    from tasks.storage.home import Home

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

data = typer.Typer(
    help="""Show the benchmarks' public datasets, or fetch one.

    The table has source, licence, rows, size and digest of each, and how much of it is here and staged. Fetched data lie in
    $PARLEY_DATA, or in `data` of the home. `--data NAME` of other commands means them.
    """,
    invoke_without_command=True,
    rich_markup_mode=None,
)


def add_to(app: typer.Typer) -> None:
    """Register this module's commands."""
    app.add_typer(data, name="data")


@data.callback()
def list_datasets(context: typer.Context, json_output: Json = False) -> None:
    """Print the table of public datasets, unless a subcommand follows."""
    if context.invoked_subcommand is not None:
        return
    from flows.text.datasets import COLUMNS, dataset_record, dataset_row
    from flows.text.results import print_rows
    from tasks.datasets.catalogue import all_datasets

    home = find_home()
    records = [dataset_record(dataset, home) for dataset in all_datasets()]
    if json_output:
        print(json.dumps(records, ensure_ascii=False))
        return
    for benchmark, ours in groupby(records, key=itemgetter("benchmark")):
        print_rows(
            f"Public datasets of {benchmark}", COLUMNS, [dataset_row(record) for record in ours]
        )
    print(
        "Fetch one: parley data get NAME. All about one, and which files to bring without a network: parley data show NAME"
    )


@data.command("show")
def show(
    name: Annotated[str, typer.Argument(help="NAME, or BENCHMARK/NAME, or a benchmark.")],
    routes: Annotated[
        bool,
        typer.Option(
            "--routes",
            help="Print how its rows are graded: project, versions, Python and test runner.",
        ),
    ] = False,
    json_output: Json = False,
) -> None:
    """Print all facts about a dataset, and which files to bring.

    Without a network, bring the files by hand; `parley data get NAME` verifies them.
    """
    from flows.text.datasets import dataset_record, described
    from tasks.datasets.catalogue import find_datasets

    home, found = find_home(), find_datasets(name)
    if routes:
        _print_routes(found, home, json_output)
        return
    if json_output:
        print(json.dumps([dataset_record(dataset, home) for dataset in found], ensure_ascii=False))
        return
    print(plain_text("\n\n".join("\n".join(described(dataset, home)) for dataset in found)))


def _print_routes(found: "Sequence[PublicDataset]", home: "Home", json_output: bool) -> None:
    from flows.text.grade_routes import COLUMNS, routes_of, summary_lines, table_rows
    from flows.text.results import print_rows

    listed = {dataset.full_name: routes_of(dataset, home) for dataset in found}
    if json_output:
        print(
            json.dumps(
                [
                    {"dataset": name, **route.model_dump()}
                    for name, routes in listed.items()
                    for route in routes
                ]
            )
        )
        return
    for name, routes in listed.items():
        print_rows(f"How the rows of {name} are graded", COLUMNS, table_rows(routes))
        print(plain_text("\n".join(summary_lines(routes))))


@data.command("get")
def get(
    name: Annotated[
        list[str],
        typer.Argument(help="NAME, or BENCHMARK/NAME, or a benchmark, for all its datasets."),
    ],
    json_output: Json = False,
) -> None:
    """Fetch public datasets and verify them. After a stop, type it again: no file is fetched twice.

    Sources are tried in their order: the Hugging Face hub (`HF_ENDPOINT` names a mirror, `HF_TOKEN` holds a key), a git
    repository (mirrors and proxies by git's own settings), a package (by pip's). Where none answers, the message says which
    files to bring and where to put them, with exit code 1.
    """
    from tasks.datasets.catalogue import find_datasets
    from tasks.datasets.fetching import fetch_dataset

    home = find_home()
    named = (dataset for one in name for dataset in find_datasets(one))
    wanted = list({dataset.full_name: dataset for dataset in named}.values())
    done: list[Fetched] = []
    failed: list[str] = []
    for dataset in wanted:
        try:
            done.append(fetch_dataset(dataset, home, _say))
        except (DataUnavailable, UsageError) as fault:
            if len(wanted) == 1:
                raise
            _say(str(fault))
            failed += [dataset.full_name] if isinstance(fault, DataUnavailable) else []
            continue
        if not json_output:
            _print_fetched(done[-1])
    if json_output:
        print(json.dumps([_record(one) for one in done]))
    if failed:
        raise DataUnavailable(
            f"{len(failed)} of {len(wanted)} datasets could not be fetched: {', '.join(failed)}"
        )


def _print_fetched(fetched: "Fetched") -> None:
    from flows.text.datasets import size_text

    dataset, files = fetched.dataset, fetched.receipt.files
    how = (
        "is here, verified"
        if fetched.was_there
        else f"fetched from {fetched.receipt.source}, verified"
    )
    size = size_text(sum(file.bytes for file in files.values()))
    lines = (
        f"{dataset.full_name}: {how}: {len(files)} {'file' if len(files) == 1 else 'files'}, {size}",
        f"  in {fetched.folder}, sha256 {fetched.receipt.digest}",
        f"  licence: {dataset.licence}",
        f"  next: {dataset.command(fetched.folder)}",
        *((f"  {dataset.note}",) if dataset.note else ()),
    )
    print(plain_text("\n".join(lines)))


def _record(fetched: "Fetched") -> dict[str, Any]:
    return {
        "name": fetched.dataset.name,
        "benchmark": fetched.dataset.benchmark,
        "folder": str(fetched.folder),
        "was_there": fetched.was_there,
        "sha256": fetched.receipt.digest,
        **fetched.receipt.model_dump(),
    }


def _say(text: str) -> None:
    print(plain_text(text), file=sys.stderr, flush=True)

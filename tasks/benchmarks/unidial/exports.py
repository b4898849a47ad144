"""How well each dataset tells models apart: the last column of the paper's Table 2."""

from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from statistics import fmean, pstdev

from schemas.errors import UsageError
from tasks.benchmarks.results import Export
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql

COLUMNS = (
    *("dataset", "dataset_version", "turn_stat", "dialog_stat", "dataset_level"),
    *("n_models", "mean", "discriminability"),
)


def discriminability(figures: Sequence[float]) -> float | None:
    """Standard deviation over mean of the models' figures on a dataset; 0 and up (paper section 4.1).

    The deviation is the population's: it gives all seven values of Table 2. None of fewer than two models, or for a mean of 0.
    """
    return pstdev(figures) / mean if len(figures) > 1 and (mean := fmean(figures)) else None


def table(home: Path, run_ids: Sequence[str]) -> Rows:
    """One row a dataset, its version and way of pooling. A model's newest run counts; controls count where run ids name them.

    Raises:
        UsageError: no run of a model is published.
    """
    if not query(home, "select table_name from information_schema.tables where table_name = 'unidial_pooled'")[1]:
        raise UsageError(f"no run of unidial is published in {home}. `parley run unidial.DATASET --model SPEC` makes one")
    statement = read_sql(files("tasks.benchmarks.unidial") / "queries" / "figures.sql").statement
    found = query(home, statement, {"run_ids": list(run_ids)})[1]
    rows: list[tuple[object, ...]] = []
    for pooled, of_models in groupby(found, key=lambda row: row[:5]):
        figures = [row[6] for row in of_models]
        rows.append((*pooled, len(figures), fmean(figures), discriminability(figures)))
    return COLUMNS, rows


EXPORTS = {
    "discriminability": Export(
        help="how well each dataset tells models apart: standard deviation over mean of their figures (Table 2)", rows=table
    )
}

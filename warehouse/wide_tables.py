"""Wide tables: views of `results` that show the metrics of one run and group side by side."""

from dataclasses import dataclass
from functools import cached_property
from importlib.resources.abc import Traversable


@dataclass(frozen=True)
class Column:
    """A column of a wide table."""

    sql: str
    """Expression over the columns of `results`."""
    text: str | None = None
    """Description. None: the one shared by all columns of this name."""
    metric: str | None = None
    """Metric whose mean the column holds."""


Columns = dict[str, Column]


@dataclass(frozen=True)
class WideTable:
    """A view with one row per run and group, and a column for each metric."""

    name: str
    grain: str
    """Description of a row."""
    key: tuple[str, ...]
    """Columns that identify a row."""
    columns: Columns
    source: str
    """FROM and WHERE clauses of the view's query."""
    base: Traversable | None = None
    """SQL file of a mart in `source` whose column descriptions apply."""

    @property
    def statement(self) -> str:
        """Return the view's query."""
        columns = ",\n".join(
            f'    {column.sql} as "{name}"' for name, column in self.columns.items()
        )
        return f"-- {self.grain}\nselect\n{columns}\n{self.source}\ngroup by all"

    @property
    def texts(self) -> dict[str, str]:
        """Return column -> description."""
        from warehouse.descriptions import mart_texts, texts

        shared = {} if self.base is None else mart_texts(self.base)
        return texts(
            self.name,
            shared
            | {
                name: column.text
                for name, column in self.columns.items()
                if column.text is not None
            },
        )

    @cached_property
    def measures(self) -> dict[str, str]:
        """Return column -> metric whose mean it is."""
        return {
            name: column.metric
            for name, column in self.columns.items()
            if column.metric is not None
        }


def result_columns(names: str) -> Columns:
    """Return columns of `results` under their own names."""
    return {name: Column(f'"{name}"') for name in names.split()}


def mean(name: str, metric: str) -> Columns:
    """Return the column of a metric's mean."""
    return {
        name: Column(
            _of("mean", metric),
            f"Mean of the metric `{metric}`. NULL where no score of it has a value.",
            metric,
        )
    }


def interval(name: str, metric: str) -> Columns:
    """Return the columns of a metric's mean and of its 95% interval."""
    stem = name.rstrip("_")
    return mean(name, metric) | {
        f"{stem}_low": Column(_of("ci_low", metric), f"Lower end of the 95% interval of `{name}`."),
        f"{stem}_high": Column(
            _of("ci_high", metric), f"Upper end of the 95% interval of `{name}`."
        ),
    }


def counts(name: str, metric: str, *more: str) -> Columns:
    """Return the columns of a metric's counts.

    Args:
        name: prefix of the columns.
        more: `UNSCORED`, `NOT_APPLICABLE` or both, to count these scores too.
    """
    return {
        f"{name}{ending}": Column(
            f"coalesce({_of(f'n{ending}', metric)}, 0)", f"Scores of `{metric}` {_COUNTED[ending]}."
        )
        for ending in ("", *more)
    }


UNSCORED, NOT_APPLICABLE = "_unscored", "_not_applicable"
_COUNTED = {
    "": "with a value",
    UNSCORED: "that a fault left without a value",
    NOT_APPLICABLE: "that have no value by definition, or through a gap in the data",
}


def _of(column: str, metric: str) -> str:
    return f"max({column}) filter (where metric = '{metric}')"

"""Finds regressions in the warehouse's table `comparisons`, and keeps a record of those that were told.

A publication may bring a regression of a run that no night listed: an older checkpoint fills in, or a person releases a run. So
what is new is told by whichever night comes next. A night that is killed between its publication and its word leaves the record
as it was, and the next night tells.
"""

import json
from collections.abc import Iterable

from flows.text.comparison import moved_judge_text
from schemas.base import Frozen
from tasks.storage.home import Home
from tasks.storage.replaced_file import replace_file

_QUESTION = """
    SELECT DISTINCT setting, model, other_model, metric, other_mean, mean, judge_n, judge_n_changed, run_id, other_run_id
    FROM comparisons WHERE event = 'regression' ORDER BY ALL
"""
Key = tuple[str, str, str]
"""(run, the run it is compared with, metric)."""


class Regression(Frozen):
    """A metric on which a model lost more than its threshold."""

    setting: str
    model: str
    other_model: str
    metric: str
    other_mean: float
    mean: float
    judge_n: int | None
    """Bundled cases that the judges were asked in both nights; None where no judge was."""
    judge_n_changed: int | None
    run_id: str
    other_run_id: str

    @property
    def key(self) -> Key:
        """What tells it from others."""
        return self.run_id, self.other_run_id, self.metric

    @property
    def line(self) -> str:
        """In one line."""
        means = f"{self.other_mean:.3f} → {self.mean:.3f}"
        moved = moved_judge_text(self.judge_n, self.judge_n_changed)
        return f"{self.setting}: {self.model} lost on {self.metric} against {self.other_model}: {means}{moved}"


def regressions(home: Home) -> tuple[Regression, ...]:
    """All that the published tables show. None where the warehouse compares no runs."""
    import duckdb

    from warehouse.connect import connect

    if not home.warehouse.exists():
        return ()
    with connect(home.path) as warehouse:
        try:
            found = warehouse.execute(_QUESTION)
        except (duckdb.CatalogException, duckdb.BinderException):
            return ()
        names = [column[0] for column in found.description]
        return tuple(Regression(**dict(zip(names, row, strict=True))) for row in found.fetchall())


class ToldRegressions:
    """Those of which word was sent to one addressee.

    Args:
        addressee: a name for where word is sent; each has a record of its own.
    """

    def __init__(self, home: Home, addressee: str) -> None:
        self._file = home.path / "told" / f"regressions-{addressee}.json"

    @property
    def exists(self) -> bool:
        """Whether a night began the record."""
        return self._file.exists()

    def keys(self) -> frozenset[Key]:
        """The regressions in it; none where it cannot be read: word sent twice is better than none."""
        try:
            return frozenset((run, other, metric) for run, other, metric in json.loads(self._file.read_bytes()))
        except (OSError, ValueError):
            return frozenset()

    def keep(self, told: Iterable[Regression]) -> None:
        """Replace the record.

        Raises:
            UsageError: it cannot be written.
        """
        replace_file(self._file, json.dumps(sorted(one.key for one in told)).encode())

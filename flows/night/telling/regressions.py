"""Finds the regressions of a night's runs in the warehouse's table `comparisons`."""

from collections.abc import Sequence

from schemas.base import Frozen
from tasks.storage.home import Home

_QUESTION = """
    SELECT setting, model, other_model, metric, other_mean, mean FROM comparisons
    WHERE event = 'regression' AND list_contains($runs, run_id) ORDER BY ALL
"""


class Regression(Frozen):
    """A metric on which a model lost more than its threshold."""

    setting: str
    model: str
    other_model: str
    metric: str
    other_mean: float
    mean: float

    @property
    def line(self) -> str:
        """In one line."""
        means = f"{self.other_mean:.3f} → {self.mean:.3f}"
        return f"{self.setting}: {self.model} lost on {self.metric} against {self.other_model}: {means}"


def regressions(home: Home, run_ids: Sequence[str]) -> tuple[Regression, ...]:
    """Those of these runs. None where the warehouse compares no runs."""
    import duckdb

    from warehouse.connect import connect

    if not home.warehouse.exists():
        return ()
    with connect(home.path) as warehouse:
        try:
            found = warehouse.execute(_QUESTION, {"runs": list(run_ids)})
        except duckdb.CatalogException:
            return ()
        names = [column[0] for column in found.description]
        return tuple(Regression(**dict(zip(names, row, strict=True))) for row in found.fetchall())

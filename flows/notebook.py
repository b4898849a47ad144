"""Parley in a notebook or script: stage data, evaluate a model, query tables.

Uses the steps and files of the command line.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from schemas.errors import UsageError
from tasks.storage.home import find_home

if TYPE_CHECKING:
    import pandas as pd

    from tasks.planning.reporting.report import RunReport


def stage(
    benchmark: str, data: str | Path, dataset_version: str | None = None
) -> Mapping[str, int]:
    """Read raw data into the lake (`parley stage`).

    Return the numbers of rows read, staged and quarantined.

    Raises:
        SourceUnreadable: No row could be staged.
    """
    from flows.stage_benchmarks import stage_dataset

    staged, _, _ = stage_dataset(benchmark, Path(data), dataset_version, None)
    return {
        "rows": staged.n_input,
        "staged": len(staged.problems),
        "quarantined": len(staged.quarantined),
    }


def evaluate(
    setting: str, *, model: str, judge: str | Mapping[str, str] = "", **more: Any
) -> "RunReport":
    """Evaluate a model on a setting, and publish (`parley run`).

    A second call resumes and pays for nothing twice.

    Args:
        setting: `BENCHMARK.SETTING`.
        model: Spec of the model.
        judge: Spec of the judge for all rubrics, or one spec per rubric name.
        more: Other options of `parley run` by field name: `agent`, `max_tokens` and others of the
            model, `data`, `options`, `limit` and others of the benchmark, `embedder`, `simulator`,
            `concurrency`, `workers`, `sandbox`.

    Returns:
        Report of the run, with `run_id`, `status`, `n_unscored` and more.

    Raises:
        UsageError: The request cannot be planned, or has an unknown field.
        InfraError: The endpoint or the sandbox is not usable.
    """
    from flows.night.invocation import run_night
    from flows.night.reporting.progress import Board
    from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
    from tasks.planning.validation_errors import explain

    of_model, of_benchmark = (
        {
            name: more.pop(name)
            for name in more.keys()
            & kind.model_fields.keys() - EvaluationRequest.model_fields.keys()
        }
        for kind in (ModelRequest, BenchmarkRequest)
    )
    judges = {"": judge} if isinstance(judge, str) else judge
    try:
        request = EvaluationRequest(
            model=ModelRequest(spec=model, **of_model),
            benchmark=BenchmarkRequest(name=setting, **of_benchmark),
            judges={name: ModelRequest(spec=spec) for name, spec in judges.items() if spec},
            **{
                name: ModelRequest(spec=more.pop(name))
                for name in more.keys() & {"simulator", "embedder"}
            },
            **more,
        )
    except ValidationError as error:
        raise UsageError(explain(error)) from None
    [report] = run_night(find_home(), [request], Board()).reports
    return report


def sql(statement: str) -> "pd.DataFrame":
    """Return the rows of a query on the published warehouse (`parley sql`).

    Raises:
        UsageError: Nothing is published yet.
    """
    import pandas as pd

    from warehouse.connect import query

    columns, rows = query(find_home().path, statement)
    return pd.DataFrame(rows, columns=list(columns))

"""Published runs for tables, with their conditions.

A condition is everything but the model that can change a figure of a results table.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from schemas.content_id import content_id
from schemas.errors import UsageError
from tasks.benchmarks.registry import folder_of
from tasks.benchmarks.setting import Setting
from tasks.language.providers.registry import is_control
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql

CONDITION_COLUMNS = (
    "options",
    "scoring_options",
    "simulator",
    "judges",
    "embedder",
    "sampling",
    "samples",
    "seed",
    "task_share",
    "simulator_sampling",
    "other_conditions",
    "conditions",
)
"""Columns that describe a row's condition. `conditions` is a digest of the whole condition."""
OPTION, SCORING, JUDGE = "option.", "scoring.", "judge."
_OTHERS = ("benchmark_version", "dataset_digest", "agent", "refused", "templates")
"""Parts of a condition in the column `other_conditions`."""
_UNPINNED = "unpinned"
"""Start of the revision of an endpoint whose weights are unknown. A date follows."""
Condition = Mapping[str, str]
"""Condition of a run: canonical JSON of each part, by name. Parts that the run lacks are absent."""
Run = TypeVar("Run")


def condition_of(run: Mapping[str, Any], settings: Mapping[str, Setting]) -> Condition:
    """Return the condition of a run, including the tasks that it covers.

    Options that the run's spec leaves out have their default. An option that affects dialogues in
    one setting and only scoring in another counts as an option of dialogues in both.

    Args:
        run: Row with the columns `spec_json`, `task_share` and `subsample_seed` of `runs`.
        settings: Settings of the run's benchmark, by name.
    """
    spec: Mapping[str, Any] = json.loads(run["spec_json"])
    simulator, share = _undated(spec.get("simulator")), run["task_share"]
    parts: dict[str, object] = {
        "benchmark_version": spec.get("benchmark_version"),
        "dataset_digest": spec.get("dataset_digest"),
        "sampling": spec.get("sampling") or {},
        "samples": spec.get("samples", 1),
        "seed": spec.get("seed", 0),
        "tasks": [1.0 if share is None else share, run["subsample_seed"]],
        "simulator": simulator,
        "simulator_sampling": simulator and (spec.get("simulator_sampling") or "default"),
        "embedder": _undated(spec.get("embedder")),
        "embedder_in_play": _undated(spec.get("embedder_in_play")),
        "agent": spec.get("agent"),
        "refused": spec.get("refused", "failed"),
        "templates": spec.get("templates") or [],
        **_options_of(spec, settings),
        **{
            f"{JUDGE}{judge['rubric']}": judge | {"judge": _undated(judge["judge"])}
            for judge in spec.get("judges") or ()
        },
    }
    return {
        name: json.dumps(part, sort_keys=True) for name, part in parts.items() if part is not None
    }


def _options_of(spec: Mapping[str, Any], settings: Mapping[str, Setting]) -> Mapping[str, str]:
    declared = settings[spec["setting"]].options if spec["setting"] in settings else ()
    of_dialogues = {
        option.name
        for setting in settings.values()
        for option in setting.options
        if option.affects == "episode"
    } | {name for name, _ in spec.get("episode_options") or ()}
    values = {option.name: option.default for option in declared}
    values |= dict((*(spec.get("episode_options") or ()), *(spec.get("scoring_options") or ())))
    return {
        f"{OPTION if name in of_dialogues else SCORING}{name}": value
        for name, value in values.items()
    }


def _undated(identity: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a model's identity without the date of an endpoint whose weights are unknown.

    Otherwise runs of two days with one hosted simulator would be two conditions.
    """
    if identity is None or not str(identity.get("revision", "")).startswith(f"{_UNPINNED}-"):
        return identity
    return {**identity, "revision": _UNPINNED}


def without(condition: Condition, *parts: str) -> Condition:
    """Return a condition without the parts whose names start with one of `parts`."""
    return {name: value for name, value in condition.items() if not name.startswith(parts)}


def by_row(
    runs: Iterable[Run], condition_of_run: Callable[[Run], Condition]
) -> Iterator[tuple[Condition, list[Run]]]:
    """Yield the condition of each table row, and the runs that belong in the row, in their order.

    The rows have the conditions that no other condition includes. A run without an option or judge
    therefore appears in the rows of all their values.
    """
    conditions = [(run, condition_of_run(run)) for run in runs]
    by_json = {json.dumps(own, sort_keys=True): own for _, own in conditions}
    for _, row in sorted(by_json.items()):
        if not any(fits(row, other) and row != other for other in by_json.values()):
            yield row, [run for run, own in conditions if fits(own, row)]


def fits(condition: Condition, row: Condition) -> bool:
    """Return True if a run with this condition belongs in a row with condition `row`."""
    return condition.items() <= row.items()


def chosen_runs(
    home: Path,
    benchmark: str,
    run_ids: Sequence[str],
    settings: Mapping[str, Setting],
    *,
    has_controls: bool = False,
) -> Mapping[str, Condition]:
    """Return the condition of each published run of a table whose rows are runs, by run id.

    These are the named runs, or else the newest run of each model, setting and condition.

    Args:
        home: Parley's data folder.
        benchmark: Name of the benchmark.
        run_ids: Named runs. Empty for the newest ones.
        settings: Settings of the benchmark, by name.
        has_controls: True if controls are included even if no run is named.
    """
    names, rows = query(
        home,
        "select run_id, model, setting, dataset_version, spec_json, task_share, subsample_seed"
        " from runs where benchmark = $benchmark order by finished_at desc, run_id",
        {"benchmark": benchmark},
    )
    newest: dict[tuple[object, ...], tuple[str, Condition]] = {}
    for run in (dict(zip(names, row, strict=True)) for row in rows):
        if (
            run["run_id"] not in run_ids
            if run_ids
            else not has_controls and is_control(run["model"])
        ):
            continue
        condition = condition_of(run, settings)
        group = (run["model"], run["setting"], run["dataset_version"], *condition.items())
        newest.setdefault((run["run_id"],) if run_ids else group, (run["run_id"], condition))
    return dict(newest.values())


def query_rows(home: Path, benchmark: str, name: str, run_ids: Sequence[str] | None = None) -> Rows:
    """Return columns and rows of the query `queries/NAME.sql` beside a benchmark's module.

    Args:
        home: Parley's data folder.
        benchmark: Name of the benchmark.
        name: Name of the query.
        run_ids: Value of `$run_ids`. None if the query has no such parameter.

    Raises:
        UsageError: No run of the benchmark is published.
    """
    tables = "select 1 from information_schema.tables where starts_with(table_name, $prefix)"
    if not query(home, tables, {"prefix": f"{benchmark}_"})[1]:
        raise not_published(home, benchmark)
    source = read_sql(folder_of(benchmark) / "queries" / f"{name}.sql")
    return query(home, source.statement, {} if run_ids is None else {"run_ids": list(run_ids)})


def not_published(home: Path, benchmark: str) -> UsageError:
    """Return the error for a table of a benchmark without published runs."""
    return UsageError(
        f"no run of {benchmark} is published in {home}. "
        f"`parley run {benchmark}.SETTING --model SPEC` publishes one"
    )


def query_records(
    home: Path, benchmark: str, name: str, run_ids: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of `query_rows` by column."""
    names, rows = query_rows(home, benchmark, name, run_ids)
    return [dict(zip(names, row, strict=True)) for row in rows]


def table_of_runs(
    home: Path,
    benchmark: str,
    name: str,
    run_ids: Sequence[str],
    settings: Mapping[str, Setting],
    *,
    has_controls: bool = False,
) -> Rows:
    """Return columns and rows of a query about `chosen_runs`, followed by the run's condition."""
    runs = chosen_runs(home, benchmark, run_ids, settings, has_controls=has_controls)
    names, rows = query_rows(home, benchmark, name, tuple(runs))
    added = [place for place, column in enumerate(CONDITION_COLUMNS) if column not in names]
    cells = {run_id: condition_cells(condition) for run_id, condition in runs.items()}
    run_ids = [row[names.index("run_id")] for row in rows]
    return (*names, *(CONDITION_COLUMNS[place] for place in added)), [
        (*row, *(cells[run_id][place] for place in added))
        for run_id, row in zip(run_ids, rows, strict=True)
    ]


def records_of_runs(
    home: Path, benchmark: str, name: str, run_ids: Sequence[str], settings: Mapping[str, Setting]
) -> list[dict[str, Any]]:
    """Return the rows of `table_of_runs` by column."""
    names, rows = table_of_runs(home, benchmark, name, run_ids, settings)
    return [dict(zip(names, row, strict=True)) for row in rows]


def condition_cells(condition: Condition) -> tuple[object, ...]:
    """Return the values of `CONDITION_COLUMNS`, with None for absent parts."""
    share = json.loads(condition["tasks"])[0]
    judges = {
        name.removeprefix(JUDGE): _label(json.loads(value)["judge"])
        for name, value in _parts(condition, JUDGE)
    }
    return (
        _options(condition, OPTION),
        _options(condition, SCORING),
        _named(condition, "simulator"),
        json.dumps(judges, sort_keys=True) if judges else None,
        _named(condition, "embedder"),
        condition.get("sampling"),
        _number(condition, "samples"),
        _number(condition, "seed"),
        share,
        condition.get("simulator_sampling"),
        json.dumps({name: json.loads(condition[name]) for name in _OTHERS if name in condition}),
        content_id(dict(condition))[:8],
    )


def _parts(condition: Condition, prefix: str) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in sorted(condition.items()) if name.startswith(prefix))


def _options(condition: Condition, prefix: str) -> str | None:
    chosen = {
        name.removeprefix(prefix): json.loads(value) for name, value in _parts(condition, prefix)
    }
    return json.dumps(chosen, sort_keys=True) if chosen else None


def _named(condition: Condition, part: str) -> str | None:
    return _label(json.loads(condition[part])) if part in condition else None


def _number(condition: Condition, part: str) -> int | None:
    return int(json.loads(condition[part])) if part in condition else None


def _label(identity: Mapping[str, Any]) -> str:
    """Return a model's name as shown in tables."""
    return ":".join(str(identity[name]) for name in ("provider", "name") if identity.get(name))

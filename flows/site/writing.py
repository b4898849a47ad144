"""Writing of the site: leaderboard, curves, runs, dialogues, comparisons, nights, histories."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from flows.site.beyond_runs import turns_of, write_comparisons, write_history, write_nights
from flows.site.charts import Colours, charts, narrowing_charts
from flows.site.labels import model_colours
from flows.site.matrix import CELL_HEIGHT, CELL_WIDTH, MARGIN, leading_pairs, matrices, standing
from flows.site.pages import SHORT, file_name, run_page, write
from schemas.base import Frozen
from schemas.errors import UsageError
from schemas.run import ModelIdentity, RunSpec, Sampling
from tasks.planning.reporting.publishing import metric_directions
from tasks.storage.home import Home
from tasks.storage.new_folder import marked_folder
from warehouse.site_rows import SiteRows

MARKER = "parley-site.txt"
"""File that marks a folder as a Parley site, which may be replaced. It lists the site's files."""


def write_site(home: Home, out: Path, pairs: Sequence[tuple[str, str]] = ()) -> dict[str, int]:
    """Write the site. An earlier site at `out` is replaced entirely; an error leaves it as it was.

    Args:
        pairs: pairs of runs to compare besides those that nights compared.

    Returns:
        How many runs and dialogues the site shows.

    Raises:
        UsageError: nothing is published, there is no such run, or `out` contains something else
            than a Parley site.
    """
    with SiteRows(home.path) as rows, marked_folder(out, MARKER, "parley site") as folder:
        for item in (files("flows.site") / "static").iterdir():
            (folder / item.name).write_bytes(item.read_bytes())
        runs = rows.runs()
        run_ids = [run["run_id"] for run in runs]
        requested = [(_the_run(run_ids, old), _the_run(run_ids, new)) for old, new in pairs]
        colours = model_colours(run["model"] for run in runs)
        newest = newest_of_each(runs)
        curves = list(_write_curves(folder, rows, newest, colours))
        board = rows.leaderboard()
        ended = {row["night_id"] for row in rows.rows("select night_id from nights")}
        counts = [
            _write_run(folder, rows, run, board, has_night=run["night_id"] in ended) for run in runs
        ]
        boards = matrices(board, newest, colours)
        directions = metric_directions()
        leading = {
            pair: rows.compared(*pair, directions)
            for pair in [*leading_pairs(rows, boards), *requested]
        }
        write(
            folder / "index.html",
            "index",
            up="",
            runs=runs,
            cell=(CELL_WIDTH, CELL_HEIGHT, MARGIN),
            curves=curves,
            compared=write_comparisons(folder, rows, requested, leading),
            nights=write_nights(folder, rows, home),
            histories=write_history(folder, rows, colours),
            matrices=boards,
            standings=[standing(matrix, leading) for matrix in boards],
        )
    return {"runs": len(runs), "dialogues": sum(counts)}


def _the_run(run_ids: Sequence[str], beginning: str) -> str:
    matching = [run_id for run_id in run_ids if run_id.startswith(beginning)]
    if len(matching) != 1:
        problem = (
            f"several published runs begin with {beginning!r}"
            if matching
            else f"no published run {beginning!r}"
        )
        raise UsageError(f"{problem}. See `parley list runs`")
    return matching[0]


def _write_curves(
    folder: Path, rows: SiteRows, shown: Collection[str], colours: Colours
) -> Iterator[str]:
    for table in rows.curve_tables():
        own = [row for row in rows.table(table.name) if row["run_id"] in shown]
        drawn = list(charts(own, table, colours))
        if drawn:
            path = folder / "curves" / f"{file_name(table.name)}.html"
            write(path, "curves", up="../", table=table.name, charts=drawn)
            yield table.name


def _write_run(
    folder: Path,
    rows: SiteRows,
    run: dict[str, Any],
    board: Sequence[dict[str, Any]],
    *,
    has_night: bool,
) -> int:
    run_id = run["run_id"]
    episodes = rows.episodes(run_id)
    write(
        folder / run_page(run_id),
        "run",
        up="../",
        run=run,
        settings=settings_of(run),
        has_night=has_night,
        scores=[row for row in board if row["run_id"] == run_id],
        narrowings=narrowing_charts(rows.decisions(run_id)),
        costs=rows.costs(run_id),
        episodes=episodes,
    )
    failures = [at for at, episode in enumerate(episodes) if episode["n_failed"]]
    contexts = rows.context_of(run_id)
    ids = [episode["episode_id"] for episode in episodes]
    for at, (_, parts) in enumerate(rows.parts_of(run_id, ids)):
        episode = episodes[at]
        context = contexts.get((episode["dialog_id"], episode["row_digest"]))
        if context is not None:
            _write_context(folder, rows, context[0])
        write(
            folder / "dialogues" / run_id[:SHORT] / f"{file_name(episode['episode_id'])}.html",
            "dialogue",
            up="../../",
            run=run,
            episode=episode,
            links=links_of(ids, failures, at),
            context=context,
            turns=list(turns_of(parts)),
        )
    return len(episodes)


def links_of(ids: Sequence[str], failures: Sequence[int], at: int) -> dict[str, str | None]:
    """Return the ids of the previous and next dialogue, and of the nearest failed ones.

    Args:
        ids: ids of the run's dialogues in the order of the pages.
        failures: sorted indices in `ids` of failed dialogues.
        at: index in `ids` of the dialogue whose page shows the links.
    """
    before, after = bisect_left(failures, at), bisect_right(failures, at)
    return {
        "before": ids[at - 1] if at else None,
        "after": ids[at + 1] if at + 1 < len(ids) else None,
        "failure_before": ids[failures[before - 1]] if before else None,
        "failure_after": ids[failures[after]] if after < len(failures) else None,
    }


def _write_context(folder: Path, rows: SiteRows, context_id: str) -> None:
    path = folder / "contexts" / f"{file_name(context_id)}.html"
    if not path.exists():
        write(path, "context", up="../", context_id=context_id, turns=rows.context(context_id))


def settings_of(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) of each setting of a run that is set, except model and benchmark."""
    spec = RunSpec.model_validate_json(run["spec_json"])
    agent, simulator = spec.agent, spec.simulator
    facts = (
        ("options of dialogues", _pairs(spec.episode_options)),
        ("options of scoring", _pairs(spec.scoring_options)),
        ("sampling", _fields(spec.sampling)),
        ("samples", str(spec.samples)),
        ("seed", str(spec.seed)),
        ("agent", agent and f"{agent.name} {agent.version} {_pairs(agent.options)}".strip()),
        ("simulated user", simulator and _model(simulator)),
        ("sampling of the simulated user", _fields(spec.simulator_sampling)),
        ("embedder", _fields(spec.embedder)),
        ("served with", _pairs(spec.subject.serving)),
        ("chat template", spec.subject.chat_template),
        ("weights", spec.subject.weights_digest),
        ("limits of programs", _fields(spec.limits)),
        *(("judge", text) for text in _judges(spec)),
    )
    return [(name, text) for name, text in facts if text]


def newest_of_each(runs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the id of the newest run of each model with each combination of settings.

    Older runs that differ only in the model's revision or weights are omitted, because a night
    evaluates each model anew: a hundred nights of five models would be five hundred curves in each
    chart.

    Args:
        runs: newest first.
    """
    newest: dict[tuple[Any, ...], str] = {}
    for run in runs:
        spec = RunSpec.model_validate_json(run["spec_json"])
        subject = spec.subject.model_copy(update={"revision": "", "weights_digest": ""})
        key = (run["model"], run["task_share"], spec.model_copy(update={"subject": subject}).run_id)
        newest.setdefault(key, run["run_id"])
    return set(newest.values())


def _judges(spec: RunSpec) -> Iterator[str]:
    judges = [(judge.rubric, judge.judge, judge.sampling) for judge in spec.judges]
    if spec.judge is not None and not judges:
        judges = [("", spec.judge, Sampling())]
    for rubric, judge, sampling in judges:
        # Shown is what differs from the default, greedy sampling.
        changes = "" if sampling == Sampling() else f"({_fields(sampling)})"
        yield f"{rubric} {_model(judge)} {changes}".strip()


def _model(identity: ModelIdentity) -> str:
    return f"{identity.label} {identity.revision}".strip()


def _pairs(pairs: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs)


def _fields(value: Frozen | None) -> str:
    settings = {} if value is None else value.model_dump(mode="json")
    return _pairs(item for item in settings.items() if item[1] not in (None, "", [], ()))

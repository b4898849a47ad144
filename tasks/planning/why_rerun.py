"""Ingredients in which two runs differ, or that changed since a run's last invocation.

To find the layers that a difference invalidates, the functions that compute ids are called with
only that ingredient exchanged. So the answer always agrees with the work that Parley repeats.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from schemas.content_id import canonical_json, content_id
from schemas.dialog import Dialog, dataset_digest
from schemas.errors import UsageError
from schemas.lake.records import RunRecord
from schemas.lake.rows import from_arrow
from schemas.night.work import Difference, Layer
from schemas.run import RubricJudge, RunSpec, judgement_id
from schemas.verdict import verdict_id
from tasks.benchmarks.registry import BENCHMARKS
from tasks.storage.parquet_store import Lake

ROWS_NAMED = 5
"""Maximum number of changed rows that a comparison lists by name."""
_LAYERS: tuple[Layer, ...] = ("dialogues", "tests", "judgements", "scores")
_LAYER_OF_TABLE: dict[str, Layer] = {
    "episodes": "dialogues",
    "test_verdicts": "tests",
    "forgery_audit": "scores",
    "judge_verdicts": "judgements",
    "scores": "scores",
}
_OF_ONE_RUN = ("files.", "seal.", "episodes", "max_fault_share", "max_forged_share")
"""Prefixes of ingredients that describe one run alone. Two runs are not compared by them."""

_SCORED_FROM = ("metrics.", "episodes")

Outside = Mapping[str, str]
"""Ingredients of a run besides its spec, by dotted name: `environment`, `metrics.NAME`, ... (see
`RunPlan.state`)."""


class RowDigests(NamedTuple):
    """Digests of one dialog, without and with the packages of its programs."""

    dialogue: str
    """Digest of everything that can change the dialogue (`Dialog.digest`): part of episode ids."""
    with_packages: str
    """Digest that also covers the packages of its programs (`Dialog.digest_with_packages`)."""


Rows = Mapping[str, RowDigests]
"""Digests of a dataset's dialogs, by dialog id."""


def digests_by_dialog(dialogs: Iterable[Dialog]) -> Rows:
    """Map each dialog's id to its digests."""
    return {
        dialog.dialog_id: RowDigests(dialog.digest, dialog.digest_with_packages)
        for dialog in dialogs
    }


def layer_ids(spec: RunSpec, outside: Outside, rows: Rows | None = None) -> dict[Layer, set[str]]:
    """Return ids of the work in each layer (dialogues, tests, judgements, scores).

    One program and one prompt per row stand for all programs and prompts. Two runs whose ids of a
    layer are equal share the work of the layer.

    Args:
        spec: spec of the run.
        outside: ingredients of the run besides its spec.
        rows: rows of the dataset. None: the dataset's digest is used as the only row.
    """
    all_rows = (
        [RowDigests(spec.dataset_digest, spec.dataset_digest)]
        if rows is None
        else list(rows.values())
    )
    row_episodes = {
        (spec.episode_id(row.dialogue, sample), row)
        for row in all_rows
        for sample in range(spec.samples)
    }
    episodes = {episode for episode, _ in row_episodes}
    environment = outside.get("environment", spec.sandbox)
    return {
        "dialogues": episodes,
        "tests": {
            verdict_id(
                code=canonical_json((episode, spec.scoring_options)),
                tests=(),
                runner_version=spec.runner_version,
                environment=environment,
                limits=spec.limits,
                tree="" if row.with_packages == row.dialogue else row.with_packages,
            )
            for episode, row in row_episodes
        },
        "judgements": {
            judgement_id(
                prompt=canonical_json(
                    (episode, judge.rubric, judge.version, judge.prompt, spec.templates)
                ),
                judge=judge.judge,
                sampling=judge.sampling,
            )
            for episode in episodes
            for judge in spec.judges
        },
        "scores": {
            content_id(
                (
                    spec.run_id,
                    [pair for pair in sorted(outside.items()) if pair[0].startswith(_SCORED_FROM)],
                )
            )
        },
    }


def _first_new(before: dict[Layer, set[str]], after: dict[Layer, set[str]]) -> Layer:
    changed: list[Layer] = [layer for layer in _LAYERS if after[layer] - before[layer]]
    return changed[0] if changed else "nothing"


def differences(
    before: RunSpec,
    after: RunSpec,
    outside: tuple[Outside, Outside] = ({}, {}),
    rows: tuple[Rows | None, Rows | None] = (None, None),
) -> tuple[Difference, ...]:
    """Return all fields in which two runs differ: fields of the specs in order, then others.

    Args:
        before: spec of the first run.
        after: spec of the second run.
        outside: ingredients of both runs besides their specs. Only names that both have are
            compared.
        rows: rows of both runs. If one is None, only the digests of the datasets are compared.
    """
    changes: list[Difference] = []
    ids_before = layer_ids(before, outside[0])
    for name in RunSpec.model_fields:
        leaves = list(_walk(name, getattr(before, name), getattr(after, name)))
        if not leaves:
            continue
        exchanged = before.model_copy(update={name: getattr(after, name)})
        others = outside[0]
        if name == "sandbox":
            others = {**others, "environment": outside[1].get("environment", after.sandbox)}
        if name == "dataset_digest" and rows[0] is not None and rows[1] is not None:
            reruns = _first_new(
                layer_ids(before, outside[0], rows[0]), layer_ids(exchanged, outside[0], rows[1])
            )
        else:
            reruns = _first_new(ids_before, layer_ids(exchanged, others))
        changes += [
            Difference(field=field, before=old, after=new, reruns=reruns)
            for field, old, new in leaves
        ]
        if name == "dataset_digest":
            changes += _changed_rows(*rows)
    return (*changes, *_outside_differences(before, *outside))


def _outside_differences(spec: RunSpec, before: Outside, after: Outside) -> Iterator[Difference]:
    ids_before = layer_ids(spec, before)
    for name in after:
        if name not in before or before[name] == after[name]:
            continue
        kind, _, table = name.partition(".")
        if kind == "files":
            reruns = _LAYER_OF_TABLE.get(table, "nothing")
        else:
            reruns = _first_new(ids_before, layer_ids(spec, {**before, name: after[name]}))
        yield Difference(field=name, before=before[name], after=after[name], reruns=reruns)


def _changed_rows(before: Rows | None, after: Rows | None) -> list[Difference]:
    if before is None or after is None:
        return []
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    added, removed = (
        sum(name not in before for name in names),
        sum(name not in after for name in names),
    )
    counts = (
        f"{len(after)} rows: {len(names) - added - removed} changed, {added} added, "
        f"{removed} removed"
    )
    invalidated = {_layer_of_row(before.get(name), after.get(name)) for name in names}
    layers: list[Layer] = [layer for layer in _LAYERS if layer in invalidated]
    first = layers[0] if layers else "nothing"
    return [
        Difference(field="rows", before=f"{len(before)} rows", after=counts, reruns=first),
        *(
            Difference(
                field=f"rows.{name}",
                before=_digest_text(before.get(name)),
                after=_digest_text(after.get(name)),
                reruns=_layer_of_row(before.get(name), after.get(name)),
            )
            for name in names[:ROWS_NAMED]
        ),
    ]


def _layer_of_row(before: RowDigests | None, after: RowDigests | None) -> Layer:
    if after is None:
        return "nothing"
    return "tests" if before is not None and before.dialogue == after.dialogue else "dialogues"


def _digest_text(row: RowDigests | None) -> str:
    return "-" if row is None else row.with_packages


def _walk(name: str, before: Any, after: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(before, BaseModel) and isinstance(after, BaseModel):
        for field in type(before).model_fields:
            yield from _walk(f"{name}.{field}", getattr(before, field), getattr(after, field))
    elif name.endswith(("options", "prompts")):
        old, new = dict(before), dict(after)
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield f"{name}.{key}", str(old.get(key, "-")), str(new.get(key, "-"))
    elif name == "judges":
        old, new = _by_rubric(before), _by_rubric(after)
        for rubric in sorted({*old, *new}):
            yield from _walk(f"judges.{rubric}", old.get(rubric), new.get(rubric))
    elif before != after:
        yield name, _text(before), _text(after)


def _by_rubric(judges: Any) -> dict[str, RubricJudge]:
    return {judge.rubric: judge for judge in judges}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else canonical_json(value)


def rows_of(lake: Lake, spec: RunSpec) -> Rows | None:
    """Return the staged rows of a run's dataset; None if the lake no longer has that edition."""
    keys = {"benchmark": spec.benchmark, "dataset_version": spec.dataset_version}
    part = lake.folder("dialogs", **keys) / f"part-{spec.dataset_digest}.parquet"
    if lake.is_whole("dialogs", part):
        return digests_by_dialog(from_arrow(lake.read_arrow("dialogs", [part]), Dialog))
    return _played_rows(lake, spec, lake.parts("dialogs", **keys))


def _played_rows(lake: Lake, spec: RunSpec, editions: Sequence[Path]) -> Rows | None:
    """Return the rows of a run's setting. An edition may have dialogs of other settings, too."""
    if spec.benchmark not in BENCHMARKS.names():
        return None
    plays = BENCHMARKS.load(spec.benchmark).data.plays
    for part in editions:
        if lake.is_whole("dialogs", part):
            dialogs = from_arrow(lake.read_arrow("dialogs", [part]), Dialog)
            played = [dialog for dialog in dialogs if plays(spec.setting, dialog)]
            if dataset_digest(played) == spec.dataset_digest:
                return digests_by_dialog(played)
    return None


def compare(
    lake: Lake, before: RunRecord, after: RunSpec, outside: Outside, rows: Rows | None = None
) -> tuple[Difference, ...]:
    """Return the differences between a recorded run and another run.

    Args:
        lake: lake with the rows of both datasets.
        before: record of the recorded run.
        after: spec of the other run.
        outside: ingredients of the other run besides its spec.
        rows: rows of the other run's dataset; None reads them from the lake.
    """
    spec = RunSpec.model_validate_json(before.spec_json)
    both: tuple[Rows | None, Rows | None] = (None, None)
    if spec.dataset_digest != after.dataset_digest:
        both = (rows_of(lake, spec), rows_of(lake, after) if rows is None else rows)
    shared = {name: value for name, value in outside.items() if not name.startswith(_OF_ONE_RUN)}
    return differences(spec, after, (_with_version(before), shared), both)


def _with_version(record: RunRecord) -> dict[str, str]:
    return {**dict(record.state), "parley_version": record.parley_version}


def rerun_reasons(
    before: RunRecord, spec: RunSpec, outside: Outside, n_pending: int
) -> tuple[Difference, ...]:
    """Return the reasons why a run with a record has pending work.

    Args:
        before: record of the run after its earlier invocation.
        spec: spec of the run.
        outside: present ingredients of the run besides its spec.
        n_pending: number of pending episodes.
    """
    reasons: list[Difference] = []
    if before.status != "finished":
        reasons.append(
            Difference(
                field="status", before=before.status, after="to be finished", reruns="nothing"
            )
        )
    if n_pending:
        reasons.append(
            Difference(
                field="owed", before=str(before.n_owed), after=str(n_pending), reruns="dialogues"
            )
        )
    return (*reasons, *_outside_differences(spec, _with_version(before), outside))


def refuse_other_run(resumed: RunSpec, requested: RunSpec) -> None:
    """Raise an error unless the request describes the run to resume.

    Raises:
        UsageError: the runs differ. The message lists the fields that differ.
    """
    changes = differences(resumed, requested)
    if changes:
        fields = "; ".join(
            f"{d.field}: {d.before!r} there, {d.after!r} requested" for d in changes[:6]
        )
        raise UsageError(
            f"--resume {resumed.run_id} is another run than the requested one ({fields}). "
            "Remove --resume to begin a new run, or use the options of the run to resume"
        )


def find_run(lake: Lake, run_id: str) -> RunRecord:
    """Return the record of the run whose id is `run_id` or begins with it.

    Raises:
        UsageError: the id of no run, or of several runs, begins with `run_id`.
    """
    folders = sorted({part.parent for part in lake.parts("runs")})
    matches = [folder for folder in folders if folder.name.removeprefix("run=").startswith(run_id)]
    if len(matches) != 1:
        names = ", ".join(folder.name.removeprefix("run=") for folder in (matches or folders)[:8])
        if matches:
            raise UsageError(
                f"several runs in {lake.root} begin with {run_id!r}: {names}. "
                "Type more digits of the id"
            )
        remedy = (
            f"known: {names}. `parley list runs` shows all"
            if names
            else "it contains no runs yet. `parley run` adds one"
        )
        raise UsageError(f"no run {run_id!r} in {lake.root}; {remedy}")
    parts = sorted(matches[0].glob("part-*.parquet"))
    return from_arrow(lake.read_arrow("runs", parts), RunRecord)[0]


def resumed_spec(lake: Lake, run_id: str | None) -> RunSpec | None:
    """Return the spec of the run that a request resumes; None if it resumes none."""
    return None if run_id is None else RunSpec.model_validate_json(find_run(lake, run_id).spec_json)

"""Finds the ingredients in which two runs differ, or for which one run works again: answers "why is this run again?".

The functions that make the ids tell which layers a difference renews: they are asked with that one ingredient exchanged. So the
answer cannot disagree with the work that is really done.
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
_LAYERS: tuple[Layer, ...] = ("dialogues", "tests", "judgements", "scores")
_LAYER_OF_TABLE: dict[str, Layer] = {
    "episodes": "dialogues",
    "test_verdicts": "tests",
    "forgery_audit": "scores",
    "judge_verdicts": "judgements",
    "scores": "scores",
}
_OF_ONE_RUN = ("files.", "seal.", "episodes", "max_fault_share", "max_forged_share")
"""Beginnings of names that are no ingredient of another run."""

_SCORED_FROM = ("metrics.", "episodes")

Outside = Mapping[str, str]
"""Ingredients of a run besides its spec, by dotted name: `environment`, `metrics.NAME`, ... (see `RunPlan.state`)."""


class RowDigests(NamedTuple):
    """What names a dialog."""

    said: str
    """All that will be said (`Dialog.digest`): part of its episodes' ids."""
    furnished: str
    """Also what its programs run in (`Dialog.digest_with_packages`)."""


Rows = Mapping[str, RowDigests]
"""dialog id -> its digests."""


def digests_by_dialog(dialogs: Iterable[Dialog]) -> Rows:
    """The rows of dialogs."""
    return {
        dialog.dialog_id: RowDigests(dialog.digest, dialog.digest_with_packages)
        for dialog in dialogs
    }


def layer_ids(spec: RunSpec, outside: Outside, rows: Rows | None = None) -> dict[Layer, set[str]]:
    """Ids of one program and one prompt to each row, by layer: equal ids are not made again.

    Args:
        rows: the dataset's; without them its digest stands for one row.
    """
    both = (
        [RowDigests(spec.dataset_digest, spec.dataset_digest)]
        if rows is None
        else list(rows.values())
    )
    placed = {
        (spec.episode_id(one.said, sample), one) for one in both for sample in range(spec.samples)
    }
    episodes = {episode for episode, _ in placed}
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
                tree="" if one.furnished == one.said else one.furnished,
            )
            for episode, one in placed
        },
        "judgements": {
            judgement_id(
                prompt=canonical_json(
                    (episode, one.rubric, one.version, one.prompt, spec.templates)
                ),
                judge=one.judge,
                sampling=one.sampling,
            )
            for episode in episodes
            for one in spec.judges
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
    """All fields in which two runs differ, by dotted name: first fields of their specs in the model's order, then others.

    Args:
        outside: of both runs, ingredients besides the spec. A name that either lacks is not compared.
        rows: of both runs. Unless both are given, the dataset's digest alone is compared.
    """
    found: list[Difference] = []
    known = layer_ids(before, outside[0])
    for name in RunSpec.model_fields:
        leaves = list(_walk(name, getattr(before, name), getattr(after, name)))
        if not leaves:
            continue
        exchanged = before.model_copy(update={name: getattr(after, name)})
        beside = outside[0]
        if name == "sandbox":
            beside = {**beside, "environment": outside[1].get("environment", after.sandbox)}
        if name == "dataset_digest" and rows[0] is not None and rows[1] is not None:
            reruns = _first_new(
                layer_ids(before, outside[0], rows[0]), layer_ids(exchanged, outside[0], rows[1])
            )
        else:
            reruns = _first_new(known, layer_ids(exchanged, beside))
        found += [
            Difference(field=field, before=old, after=new, reruns=reruns)
            for field, old, new in leaves
        ]
        if name == "dataset_digest":
            found += _changed_rows(*rows)
    return (*found, *_outside_differences(before, *outside))


def _outside_differences(spec: RunSpec, before: Outside, after: Outside) -> Iterator[Difference]:
    known = layer_ids(spec, before)
    for name in after:
        if name not in before or before[name] == after[name]:
            continue
        kind, _, table = name.partition(".")
        if kind == "files":
            reruns = _LAYER_OF_TABLE.get(table, "nothing")
        else:
            reruns = _first_new(known, layer_ids(spec, {**before, name: after[name]}))
        yield Difference(field=name, before=before[name], after=after[name], reruns=reruns)


def _changed_rows(before: Rows | None, after: Rows | None) -> list[Difference]:
    if before is None or after is None:
        return []
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    added, removed = (
        sum(name not in before for name in names),
        sum(name not in after for name in names),
    )
    said = f"{len(after)} rows: {len(names) - added - removed} changed, {added} added, {removed} removed"
    renewed = {_of_row(before.get(name), after.get(name)) for name in names}
    layers: list[Layer] = [layer for layer in _LAYERS if layer in renewed]
    first = layers[0] if layers else "nothing"
    counted = Difference(field="rows", before=f"{len(before)} rows", after=said, reruns=first)
    return [
        counted,
        *(
            Difference(
                field=f"rows.{name}",
                before=_named(before.get(name)),
                after=_named(after.get(name)),
                reruns=_of_row(before.get(name), after.get(name)),
            )
            for name in names[:ROWS_NAMED]
        ),
    ]


def _of_row(before: RowDigests | None, after: RowDigests | None) -> Layer:
    if after is None:
        return "nothing"
    return "tests" if before is not None and before.said == after.said else "dialogues"


def _named(row: RowDigests | None) -> str:
    return "-" if row is None else row.furnished


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
    return {one.rubric: one for one in judges}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else canonical_json(value)


def rows_of(lake: Lake, spec: RunSpec) -> Rows | None:
    """The rows of a run's dataset as it was staged; None where that edition is no longer in the lake."""
    keys = {"benchmark": spec.benchmark, "dataset_version": spec.dataset_version}
    part = lake.folder("dialogs", **keys) / f"part-{spec.dataset_digest}.parquet"
    if lake.is_whole("dialogs", part):
        return digests_by_dialog(from_arrow(lake.read_arrow("dialogs", [part]), Dialog))
    return _played_rows(lake, spec, lake.parts("dialogs", **keys))


def _played_rows(lake: Lake, spec: RunSpec, editions: Sequence[Path]) -> Rows | None:
    """Rows that the run's setting plays, from an edition that holds dialogs of other settings, too."""
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
    """How another run differs from a recorded one.

    Args:
        outside: ingredients of the other run besides its spec.
        rows: of its dataset; None reads them from the lake.
    """
    spec = RunSpec.model_validate_json(before.spec_json)
    both: tuple[Rows | None, Rows | None] = (None, None)
    if spec.dataset_digest != after.dataset_digest:
        both = (rows_of(lake, spec), rows_of(lake, after) if rows is None else rows)
    shared = {name: value for name, value in outside.items() if not name.startswith(_OF_ONE_RUN)}
    return differences(spec, after, (_with_version(before), shared), both)


def _with_version(record: RunRecord) -> dict[str, str]:
    return {**dict(record.state), "parley_version": record.parley_version}


def why_again(
    before: RunRecord, spec: RunSpec, outside: Outside, n_pending: int
) -> tuple[Difference, ...]:
    """Why a run that has a record is worked on once more.

    Args:
        before: its record, as the earlier invocation left it.
        outside: its present ingredients besides its spec.
        n_pending: episodes pending now.
    """
    found: list[Difference] = []
    if before.status != "finished":
        found.append(
            Difference(
                field="status", before=before.status, after="to be finished", reruns="nothing"
            )
        )
    if n_pending:
        found.append(
            Difference(
                field="owed", before=str(before.n_owed), after=str(n_pending), reruns="dialogues"
            )
        )
    return (*found, *_outside_differences(spec, _with_version(before), outside))


def refuse_other_run(resumed: RunSpec, asked: RunSpec) -> None:
    """Raise unless the request describes the run that is to be resumed.

    Raises:
        UsageError: names each field that differs.
    """
    found = differences(resumed, asked)
    if found:
        listed = "; ".join(f"{d.field}: {d.before!r} there, {d.after!r} asked" for d in found[:6])
        raise UsageError(
            f"--resume {resumed.run_id} is another run than the one asked for ({listed}). Leave --resume out for a run of its"
            " own, or give the options of the run to go on with"
        )

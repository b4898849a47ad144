"""Evaluations that exist already for given weights, under any name."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pydantic import ValidationError

from schemas.content_id import content_id
from schemas.lake.records import NightRecord, RunRecord, utc_now
from schemas.night.checkpoint import Checkpoint
from schemas.night.work import FailedRun
from schemas.run import ModelIdentity, RunSpec
from tasks.checkpoints.source import SourceCheckpoint
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.publishing import released_because
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_ANY_MODEL = ModelIdentity(provider="control", name="anybody")


def finished_runs(home: Home) -> Mapping[str, frozenset[str]]:
    """Return the finished and released runs by a digest of their weights and settings."""
    runs: dict[str, frozenset[str]] = {}
    lake = Lake(home.lake)
    for record in lake.read("runs", RunRecord):
        if record.status == "finished" or released_because(lake, record) is not None:
            try:
                spec = RunSpec.model_validate_json(record.spec_json)
            except ValidationError:
                continue  # A run of an earlier version with other settings.
            key = _evaluation_digest(spec)
            runs[key] = runs.get(key, frozenset()) | {record.run_id}
    return runs


def left_behind(home: Home) -> frozenset[str]:
    """Return the runs that failed or were withheld in the latest night that worked on them."""
    lake, unsuccessful = Lake(home.lake), set[str]()
    failed = {(run.night_id, run.run_id) for run in lake.read("failed_runs", FailedRun)}
    for night in sorted(lake.read("nights", NightRecord), key=lambda night: night.finished_at):
        for run_id in {*night.run_ids, *(work.run_id for work in night.work)}:
            unsuccessful.discard(run_id)
        unsuccessful |= {run_id for night_id, run_id in failed if night_id == night.night_id}
        unsuccessful |= {work.run_id for work in night.work if work.status == "withheld"}
    return frozenset(unsuccessful)


def is_known(plan: RunPlan, finished: Mapping[str, frozenset[str]]) -> bool:
    """Return True if the plan's weights already have this evaluation, with nothing pending.

    The evaluated model may have had another name or another version of the engine.
    """
    runs = finished.get(_evaluation_digest(plan.spec), frozenset())
    return bool(runs - {plan.run_id}) or (plan.run_id in runs and not plan.pending())


def _evaluation_digest(spec: RunSpec) -> str:
    """Return a digest of the spec that identifies the model under test by its weights only.

    If the weights cannot be read, the revision identifies the model.
    """
    weights = spec.subject.weights_digest or spec.subject.revision
    return content_id({"weights": weights, "spec": spec.model_copy(update={"subject": _ANY_MODEL})})


_PROVIDERS = {
    "directory": "vllm",
    "recordings": "recorded",
    "repository": "vllm",
    "endpoint": "openai",
}


def known_checkpoints(home: Home) -> Mapping[str, Checkpoint]:
    """Return the recorded checkpoints by digest, with their first name and latest path."""
    return {row.digest: row for row in Lake(home.lake).read("checkpoints", Checkpoint)}


def record_checkpoints(home: Home, checkpoints: Iterable[SourceCheckpoint]) -> None:
    """Record the checkpoints that a night evaluates.

    Weights that were recorded before keep their first name, family and time. Path and source are
    updated.
    """
    recorded = known_checkpoints(home)
    for checkpoint in checkpoints:
        before = recorded.get(checkpoint.digest)
        row = _row(checkpoint, before)
        if row != before:
            Lake(home.lake).write_part("checkpoints", [row], row.digest, family=row.family)


def _row(checkpoint: SourceCheckpoint, before: Checkpoint | None) -> Checkpoint:
    return Checkpoint(
        digest=checkpoint.digest,
        family=before.family if before else checkpoint.family,
        step=before.step if before else checkpoint.step,
        model=before.model if before else f"{_PROVIDERS[checkpoint.source.kind]}:{checkpoint.name}",
        kind=checkpoint.source.kind,
        source=checkpoint.source.place,
        path=checkpoint.path,
        changed_at=datetime.fromtimestamp(checkpoint.changed_s, UTC).isoformat(timespec="seconds")
        if checkpoint.changed_s
        else "",
        found_at=before.found_at if before else utc_now(),
    )

"""What was evaluated already, whatever the weights were called then."""

from collections.abc import Mapping

from pydantic import ValidationError

from schemas.content_id import content_id
from schemas.lake.records import NightRecord, RunRecord
from schemas.night.work import FailedRun
from schemas.run import ModelIdentity, RunSpec
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.releasing import released_because
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_ANYBODY = ModelIdentity(provider="control", name="anybody")


def finished_runs(home: Home) -> Mapping[str, frozenset[str]]:
    """What was asked of which weights -> the finished and released runs that asked it."""
    found: dict[str, frozenset[str]] = {}
    lake = Lake(home.lake)
    for record in lake.read("runs", RunRecord):
        if record.status == "finished" or released_because(lake, record) is not None:
            try:
                spec = RunSpec.model_validate_json(record.spec_json)
            except ValidationError:
                continue  # of a Parley that asked something else
            key = _asked(spec)
            found[key] = found.get(key, frozenset()) | {record.run_id}
    return found


def left_behind(home: Home) -> frozenset[str]:
    """Runs that failed or were withheld in the latest night that worked on them."""
    lake, in_vain = Lake(home.lake), set[str]()
    failed = {(run.night_id, run.run_id) for run in lake.read("failed_runs", FailedRun)}
    for night in sorted(lake.read("nights", NightRecord), key=lambda night: night.finished_at):
        for run_id in {*night.run_ids, *(work.run_id for work in night.work)}:
            in_vain.discard(run_id)
        in_vain |= {run_id for night_id, run_id in failed if night_id == night.night_id}
        in_vain |= {work.run_id for work in night.work if work.status == "withheld"}
    return frozenset(in_vain)


def is_known(plan: RunPlan, finished: Mapping[str, frozenset[str]]) -> bool:
    """Whether these weights were asked the same before and nothing of it is left: under another name or engine, too."""
    runs = finished.get(_asked(plan.spec), frozenset())
    return bool(runs - {plan.run_id}) or (plan.run_id in runs and not plan.owed())


def _asked(spec: RunSpec) -> str:
    """The spec with nothing of the model under test but its weights; its revision where they cannot be read."""
    weights = spec.subject.weights_digest or spec.subject.revision
    return content_id({"weights": weights, "spec": spec.model_copy(update={"subject": _ANYBODY})})

"""A played dialogue as the lake keeps it."""

from schemas.dialog import Dialog
from schemas.episode import Episode
from tasks.dialogue.engine import Ending


def ended_episode(setting: str, dialog: Dialog, ending: Ending) -> Episode:
    """Its first attempt, in a run that has no other."""
    return Episode(
        episode_id="e",
        run_id="r",
        benchmark=dialog.benchmark,
        model="m",
        setting=setting,
        dataset_version=dialog.dataset_version,
        problem_id=dialog.problem_id,
        dialog_id=dialog.dialog_id,
        row_digest=dialog.row_digest,
        sample=0,
        seed=0,
        attempt=1,
        stop_reason=ending.stop_reason,
        error=ending.error,
        started_at="",
        finished_at="",
        steps=ending.steps,
    )

"""Finished or unfinished run in the lake, and the rows that belong to it."""

from dataclasses import dataclass

from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.errors import UsageError
from schemas.lake.records import RunEpisode, RunRecord
from schemas.problem import Problem
from schemas.run import RunSpec
from tasks.planning.why_rerun import find_run
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tasks.storage.pending import read_episodes


@dataclass(frozen=True)
class StoredRun:
    """Run in the lake. Each method reads its rows anew."""

    lake: Lake
    record: RunRecord

    @classmethod
    def find(cls, home: Home, run_id: str) -> "StoredRun":
        """Return the run with this id, or with an id that begins with it.

        Raises:
            UsageError: the id of no run, or of several runs, begins with `run_id`.
        """
        lake = Lake(home.lake)
        return cls(lake, find_run(lake, run_id))

    @property
    def keys(self) -> dict[str, str]:
        """Return the columns by which the tables of runs are partitioned, with their values."""
        record = self.record
        return {"benchmark": record.benchmark, "model": record.model, "run_id": record.run_id}

    @property
    def spec(self) -> RunSpec:
        """Return the run's spec."""
        return RunSpec.model_validate_json(self.record.spec_json)

    def require_complete(self) -> None:
        """Check that the run is not left incomplete.

        Raises:
            UsageError: the run is incomplete. The message names the remedy.
        """
        if self.record.status == "incomplete":
            raise UsageError(
                f"run {self.record.run_id} is not finished. Resume it with its command, then"
                " export it"
            )

    def members(self) -> list[RunEpisode]:
        """Return the run's episodes as rows of `run_episodes`."""
        return self.lake.read("run_episodes", RunEpisode, **self.keys)

    def episodes(self) -> dict[str, Episode]:
        """Return the run's episodes that exist, by id."""
        ids = [member.episode_id for member in self.members()]
        return read_episodes(self.lake, self.record.benchmark, self.record.model, ids)

    def dialogs(self) -> list[Dialog]:
        """Return the dialogs of the run's dataset."""
        return self.lake.read("dialogs", Dialog, **self._dataset_keys)

    def problems(self) -> list[Problem]:
        """Return the problems of the run's dataset."""
        return self.lake.read("problems", Problem, **self._dataset_keys)

    @property
    def _dataset_keys(self) -> dict[str, str]:
        return {"benchmark": self.record.benchmark, "dataset_version": self.record.dataset_version}

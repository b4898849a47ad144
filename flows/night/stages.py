"""The stages of one run as a person watches them: each shows its progress, calls its task and keeps what came of it."""

from functools import cached_property

import pyarrow as pa

from flows.night.run_record import Work
from flows.night.runtime import Night
from flows.orchestration.artifacts import ProgressArtifact
from flows.orchestration.task_arguments import unlooked
from schemas.episode import Episode
from schemas.rows import from_arrow
from schemas.verdict import FailureReason, TestVerdict
from tasks.converse import Conversed, context_for, converse, settle
from tasks.execute import execute, expected_verdicts
from tasks.planning.plan import RunPlan
from tasks.score import score, verdict_rows
from tasks.stage import stage
from tasks.worker import converse_shard, execute_shard
from tasks.worker.jobs import RunContext


class Stages:
    """One run's stages, to be called in their order. `work` holds what they have made."""

    def __init__(self, tonight: Night, plan: RunPlan, work: Work) -> None:
        self._tonight, self._plan, self.work = tonight, plan, work
        self._title, self._board = plan.request.title, tonight.board

    def stage(self) -> None:
        """Write the raw rows to the lake."""
        self._board.stage(self._title, "stage")
        stage(self._plan, self._title)

    def converse(self) -> None:
        """Play the owed dialogues."""
        plan, owed = self._plan, self._plan.owed()
        self._board.stage(self._title, converse_shard.STAGE, len(owed))
        self._board.expect(sum(plan.due(wanted.dialog).rounds for wanted in owed))
        if owed:
            self.work.conversed = self._played(len(owed))
        else:
            settle(plan)

    def episode_rows(self) -> pa.Table:
        """All episodes of the run, as they lie in the lake."""
        return self._plan.episodes.rows(wanted.episode_id for wanted in self._plan.members)

    def take_episodes(self, rows: pa.Table) -> None:
        """Go on with these episodes. Their rows have been checked."""
        self.work.episodes = tuple(from_arrow(rows, Episode))

    def _played(self, n_owed: int) -> Conversed:
        tonight, plan = self._tonight, self._plan
        tonight.prepare_publication()
        progress = ProgressArtifact(f"{self._title}: converse", n_owed)
        served = tonight.model_servers(plan)
        context = context_for(plan, workers=tonight.n_workers, cores=tonight.cores, served=served)
        done = converse(plan, context, tonight.client(), self._title, lambda result: progress.advance(result.n_episodes))
        progress.done()
        self._board.done(n_owed - done.n_owed)
        return done

    def execute(self) -> pa.Table:
        """Run the programs of all answers; returns the run's verdicts, as they lie in the lake."""
        work, n_episodes = self.work, len(self.work.episodes)
        self._board.stage(self._title, execute_shard.STAGE, n_episodes)
        progress = ProgressArtifact(f"{self._title}: execute", n_episodes)
        work.executed = execute(
            self._plan,
            self._context,
            unlooked(work.episodes),
            self._tonight.client(),
            self._title,
            lambda result: progress.advance(result.n_episodes),
        )
        progress.done()
        self._board.done(n_episodes)
        verdicts = verdict_rows(self._plan)
        work.n_programs = len(verdicts) - verdicts["verdict_id"].null_count
        work.n_tampered = verdicts["reason"].to_pylist().count(FailureReason.TAMPERING)
        return verdicts

    @cached_property
    def _context(self) -> RunContext:
        return context_for(self._plan, workers=self._tonight.n_workers, cores=self._tonight.cores)

    def expected_verdicts(self) -> frozenset[tuple[str, int, str]]:
        """(episode, turn, instruction) of every verdict that the run must have."""
        return expected_verdicts(self._context, self._plan, self.work.episodes)

    def score(self, verdicts: pa.Table) -> None:
        """Compute every metric."""
        self._board.stage(self._title, "score")
        decided = unlooked(from_arrow(verdicts, TestVerdict))
        self.work.scores = score(self._plan, unlooked(self.work.episodes), decided, self._title)

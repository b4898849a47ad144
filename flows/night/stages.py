"""Stages of one run: each shows its progress, calls its task and stores the result."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flows.night.reporting.run_record import Work
from flows.night.run_queue import QueuedRun
from flows.night.session import Session
from flows.orchestration.artifacts import ProgressArtifact
from schemas.episode import by_episode
from schemas.errors import BudgetSpent
from schemas.lake.rows import PackedRows
from schemas.run import ModelEndpoint, ModelIdentity
from schemas.verdict import FailureReason, JudgeVerdict, TestVerdict
from tasks.audit import AuditStage, audited_passes, drawn_programs
from tasks.converse import Conversed, ConverseStage, context_for, settle
from tasks.decide import DecideAhead
from tasks.driver.judging import Judgements, judge_context, judgements_of
from tasks.embed import EmbedAhead, embed
from tasks.execute import ExecuteStage, expected_verdicts
from tasks.judge import JudgeAhead, JudgeStage, ask_drift, judging_ahead
from tasks.language.endpoints.batch_files import describe_batches
from tasks.planning.dataset import write_staged
from tasks.planning.participants.models import player_prices
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.report import decision_rows, keep_decisions
from tasks.score import plain_verdict_rows, score, score_requests
from tasks.stage import ItemT, OnResult, ResultT, ShardT, Stage, run_stage_task, run_task
from tasks.storage.run_rows import WantedEpisodes, verdict_table
from tasks.worker import audit_shard, converse_shard, execute_shard, judge_shard
from tasks.worker.budget_meter import BudgetMeter
from tasks.worker.jobs import JudgeContext, RunContext, ShardResult

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


class Stages:
    """Stages of one run, to be called in the order of definition. `work` collects the results."""

    def __init__(self, session: Session, plan: RunPlan, work: Work, run: QueuedRun) -> None:
        self._session, self._plan, self.work, self._evidence = session, plan, work, plan.evidence
        self._title, self._board, self._run = plan.request.title, session.board, run

    def stage(self) -> None:
        """Write the raw rows to the lake."""
        self._board.stage(self._title, "stage")
        plan, spec = self._plan, self._plan.spec
        with self._session.turns.alone("stage"):
            run_task(
                "stage",
                self._title,
                lambda: write_staged(plan.staged, spec.benchmark, spec.dataset_version, plan.lake),
            )

    def play(self) -> None:
        """Wait until the run may use its endpoints, and play its pending dialogues."""
        plan, pending = self._plan, self._plan.pending()
        if pending:
            self.work.is_begun = False
            with self._run.playing(
                lambda: self._board.stage(self._title, "wait for the endpoint"),
                self._session.heed_caps,
            ) as on_all_begun:
                self.work.is_begun = True
                self._play_pending(pending, on_all_begun)
        else:
            self._session.servers.keep(
                plan, later=[judge_spec.judge for judge_spec in plan.spec.judges]
            )
            self._board.stage(self._title, converse_shard.STAGE)
            settle(plan)

    def _play_pending(self, pending: WantedEpisodes, on_all_begun: Callable[[], None]) -> None:
        plan = self._plan
        self._board.stage(self._title, converse_shard.STAGE, len(pending))
        self._board.expect(plan.n_rounds(pending))
        self._board.show_state(lambda: describe_batches([plan.subject.endpoint]))
        self._board.price(player_prices(plan.lake, plan.models))
        self.work.conversed = self._played(len(pending), on_all_begun)
        self._stop_if(self.work.conversed.is_cut)

    def _stop_if(self, is_cut: bool) -> None:
        """Raise BudgetSpent if a budget cap ended the stage."""
        if is_cut:
            raise BudgetSpent(self._session.why_over() or "a cap of the budget is reached")

    @cached_property
    def _budget_meter(self) -> BudgetMeter | None:
        return self._session.budget_meter(self._plan)

    def read_episodes(self) -> None:
        """Read the run's episodes, which have been checked."""
        self.work.episodes = self._plan.episodes.packed(self._plan.members.ids)

    def _played(self, n_pending: int, on_all_begun: Callable[[], None]) -> Conversed:
        session, plan = self._session, self._plan
        session.prepare_publication()
        players = [
            player for player in (plan.spec.subject, plan.spec.simulator) if player is not None
        ]
        judges = [judge_spec.judge for judge_spec in plan.spec.judges]
        evidence = self._evidence
        is_in_step = evidence is not None and evidence.is_judged and self._run.is_judged_alone()
        is_judged_ahead = (is_in_step or self._may_judge_ahead()) and session.servers.fit(
            plan, [*players, *judges]
        )
        served = self._reach([*players, *(judges if is_judged_ahead else ())])
        embedder = session.embedder(plan) if plan.spec.embedder_in_play else None
        context = context_for(
            plan,
            workers=session.n_workers,
            cores=session.cores,
            served=served,
            embedder=embedder,
            budget_meter=self._budget_meter,
            calls=session.call_log(plan),
        )
        with self._judging_ahead(is_judged_ahead) as judging, self._embedding_ahead() as embedding:
            deciding = self._deciding(judging)

            def played(result: ShardResult) -> None:
                for ahead in (None if is_in_step else judging, embedding):
                    if ahead:
                        ahead.take(result)

            done = self._run_stage(
                ConverseStage(plan, context, session.client(), deciding, on_all_begun),
                n_pending,
                played,
            )
            # An early decision may have made some episodes unnecessary.
            self.work.pending &= set(plan.wanted.ids.to_pylist())
            session.servers.keep(plan, used=judges if judging else (), later=judges)
        session.servers.keep(plan, later=judges)
        if judging:
            self.work.judged.model_calls += judging.result.model_calls
        self._board.done(n_pending - done.n_pending)
        return done

    def _run_stage(
        self,
        stage: Stage[ItemT, ShardT, ResultT],
        n_items: int,
        on_result: OnResult = lambda _: None,
    ) -> ResultT:
        """Run a stage as a Prefect task, and show its progress in Prefect's UI."""
        progress = ProgressArtifact(self._title, stage.name, n_items)

        def take(result: ShardResult) -> None:
            progress.advance(result.n_items)
            on_result(result)

        done = run_stage_task(stage, self._title, take)
        progress.done()
        return done

    def _deciding(self, judging: JudgeAhead | None) -> DecideAhead | None:
        """Return the object that decides the run's comparison early, while dialogues are played.

        Return None without a decision rule, or if judges cannot answer at that time.
        """
        plan, evidence = self._plan, self._evidence
        if evidence is None or (evidence.is_judged and judging is None):
            return None
        return DecideAhead(
            plan,
            evidence,
            self._session.client(),
            judging.rows if judging and evidence.is_judged else None,
        )

    def decide(self) -> None:
        """Store the early decision, computed from the final scores.

        Without a decision rule, remove an earlier decision of the run.
        """
        plan, evidence = self._plan, self._evidence
        if evidence is not None:
            evidence.take({episode.problem_id for episode in self.work.episodes}, self.work.scores)
            evidence.skip_faults()
        rows = () if evidence is None else decision_rows(plan, evidence, self.work.judged.rows)
        keep_decisions(plan, rows)

    def execute(self) -> pa.Table:
        """Run the programs of all answers, and return their verdicts before the audit."""
        work, n_episodes = self.work, len(self.work.episodes)
        if not self._plan.runs_programs:
            return plain_verdict_rows(self._plan)
        self._board.stage(self._title, execute_shard.STAGE, n_episodes)
        spec = self._plan.spec
        # A run that waits here reuses these verdicts.
        with self._session.turns.alone(f"programs of {spec.label} on {spec.benchmark}"):
            programs = ExecuteStage(
                self._plan,
                self._context,
                self._session.client(),
                work.episodes,
                work.conversed.shard_names,
            )
            work.executed = self._run_stage(programs, n_episodes)
        self._board.done(n_episodes)
        self._stop_if(work.executed.is_cut)
        verdicts = plain_verdict_rows(self._plan)
        work.n_programs = len(verdicts) - verdicts["verdict_id"].null_count
        work.n_tampered = verdicts["reason"].to_pylist().count(FailureReason.TAMPERING)
        return verdicts

    def audit(self, verdicts: pa.Table) -> PackedRows[TestVerdict]:
        """Audit passed tests, and return the verdicts, in which each forged pass counts as failed.

        Args:
            verdicts: the verdicts before the audit.
        """
        plan, work = self._plan, self.work
        if not plan.audits:
            return _packed(verdicts)
        items = drawn_programs(plan, self._context, work.episodes, verdicts)
        self._board.stage(self._title, audit_shard.STAGE, len(items), unit="programs")
        work.to_audit = audited_passes(items)
        passes = AuditStage(plan, self._context, self._session.client(), items)
        work.audited = self._run_stage(passes, len(items))
        self._board.done(len(items))
        self._stop_if(work.audited.is_cut)
        return _packed(verdict_table(plan.lake, **plan.keys))

    @cached_property
    def _context(self) -> RunContext:
        return context_for(
            self._plan,
            workers=self._session.n_workers,
            cores=self._session.cores,
            budget_meter=self._budget_meter,
        )

    def expected_verdicts(self) -> frozenset[tuple[str, int, str]]:
        """Return (episode, turn, instruction) for each verdict that the run must have."""
        if not self._plan.runs_programs:
            return frozenset()
        expected = expected_verdicts(self._context, self._plan, self.work.episodes)
        self.work.n_unreadable = expected.n_unreadable
        return expected.verdicts

    @cached_property
    def _judgements(self) -> Judgements:
        return Judgements(self._plan)

    def _reach(self, models: Sequence[ModelIdentity]) -> Mapping[ModelIdentity, ModelEndpoint]:
        """Start the servers of these models, and return all usable endpoints by model."""
        return self._session.servers.reach(
            self._plan,
            models,
            waiting=lambda: self._board.interrupted("wait for devices"),
            heed=self._session.heed_caps,
        )

    def _reach_judges(self) -> tuple[JudgeContext, Any]:
        """Start the judges' servers, and return the judge context and the Dask client.

        Judge drift is measured first.
        """
        session, plan = self._session, self._plan
        served = self._reach([judge_spec.judge for judge_spec in plan.spec.judges])
        calls = session.call_log(plan)
        context = judge_context(
            plan,
            workers=session.n_workers,
            served=served,
            budget_meter=self._budget_meter,
            calls=calls,
        )
        self.work.n_drift_calls += ask_drift(plan, context, session.client(), session.night_id)
        return context, session.client()

    def _may_judge_ahead(self) -> bool:
        """Return True if a dialogue may be judged before all others have ended."""
        rubrics = self._plan.benchmark.rubrics(self._plan.spec.setting)
        return not all(rubric.reads_verdicts for rubric in rubrics) and self._run.is_judged_alone()

    def _judging_ahead(self, is_judged_ahead: bool) -> AbstractContextManager[JudgeAhead | None]:
        return (
            judging_ahead(self._plan, self._judgements, *self._reach_judges())
            if is_judged_ahead
            else nullcontext()
        )

    def _embedding_ahead(self) -> AbstractContextManager[EmbedAhead | None]:
        plan = self._plan
        if plan.embedder is None or plan.benchmark.scores.texts_to_embed is None:
            return nullcontext()
        return EmbedAhead(plan, lambda: self._session.embedder(plan), self._budget_meter)

    def judge(self, verdicts: PackedRows[TestVerdict]) -> tuple[JudgeVerdict, ...]:
        """Let the judges rate the dialogues, and return the run's judgements.

        The tuple is empty if the setting has no rubric.
        """
        plan, work = self._plan, self.work
        if not plan.judges:
            return ()
        wanted = self._judgements.wanted(work.episodes, by_episode(verdicts), all_rubrics=True)
        self._board.stage(self._title, judge_shard.STAGE, len(wanted), unit="judgements")
        self._board.show_state(
            lambda: describe_batches(judge.access.endpoint for judge in plan.judges.values())
        )
        # A run that waits here reuses these judgements.
        with self._session.turns.alone(*judgements_of(plan)):
            judging = JudgeStage(
                plan, self._judgements, wanted, self._reach_judges, self._budget_meter
            )
            judged = self._run_stage(judging, len(wanted))
        self._session.servers.keep(plan)
        judged.model_calls += work.judged.model_calls
        work.judged = judged
        self._board.done(len(wanted))
        self._stop_if(judged.is_cut)
        return work.judged.rows

    def expected_judgements(self) -> frozenset[tuple[str, int, str, str]]:
        """Return (episode, turn, rubric, dimension) for each judgement that the run must have."""
        return self.work.judged.due

    def embed(
        self, verdicts: PackedRows[TestVerdict], judged: tuple[JudgeVerdict, ...]
    ) -> "Mapping[str, Vector]":
        """Return the embedding vectors of the texts that the scores compare.

        The scores of most settings compare no texts, so the map is empty.
        """
        plan = self._plan
        if plan.embedder is None or plan.benchmark.scores.texts_to_embed is None:
            return {}
        self._board.stage(self._title, "embed")
        requests = tuple(score_requests(plan, self.work.episodes, verdicts, judged))
        vectors = run_task(
            "embed",
            self._title,
            lambda: embed(plan, requests, lambda: self._session.embedder(plan), self._budget_meter),
        )
        self._stop_if(vectors is None)
        return vectors or {}

    def score(
        self,
        verdicts: PackedRows[TestVerdict],
        judged: tuple[JudgeVerdict, ...],
        vectors: "Mapping[str, Vector]",
    ) -> None:
        """Compute every metric."""
        self._board.stage(self._title, "score")
        self.work.scores = run_task(
            "score",
            self._title,
            lambda: score(self._plan, self.work.episodes, verdicts, judged, vectors),
        )


def _packed(verdicts: pa.Table) -> PackedRows[TestVerdict]:
    return PackedRows.of_tables("test_verdicts", [verdicts])

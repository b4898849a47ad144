"""Quality checks of the stages' tables, each as a Prefect task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
from pydantic import BaseModel

from schemas.audit import ForgeryAudit
from schemas.episode import Episode, StopReason
from schemas.errors import ParleyError
from schemas.lake.records import QualityCheck, utc_now
from schemas.lake.rows import PackedRows, to_arrow
from schemas.verdict import JudgeVerdict
from tasks.benchmarks.contract import Due
from tasks.planning.plan import RunPlan
from tasks.stage import run_task
from warehouse.checks import (
    CheckContext,
    Implication,
    blocking_failures,
    index_path,
)
from warehouse.lake import SEALED, LakeRows, RowFacts, run_seal, table_seal

CheckTable = Callable[[str, pa.Table | LakeRows, CheckContext], list[QualityCheck]]
"""Function (table, rows, context) -> one check per rule."""


@dataclass(frozen=True)
class Checked:
    """Result of a run's quality checks: blocking failures, and the path of the HTML report."""

    failures: tuple[QualityCheck, ...]
    docs_path: str | None
    seal: Mapping[str, str] = field(default_factory=dict[str, str])
    """Map each checked file to its digest. The run's record stores the map."""


class StoppedByCheck(ParleyError):
    """A blocking expectation failed on a table. Later stages do not use the table."""


class QualityGate:
    """Quality checks of a run's tables, which run one after another beside the run's stages.

    After a blocking failure no further table is checked, and `require` raises StoppedByCheck. So
    does the end of the block, also in place of an error: a stage may fail because of a bad table.

    Args:
        plan: Plan of the run.
        title: Title of the task runs.
        check_table: `warehouse.checks.check_table`, in this process or in another.
    """

    def __init__(self, plan: RunPlan, title: str, check_table: CheckTable) -> None:
        self._plan, self._title, self._check_table = plan, title, check_table
        self._checks: list[QualityCheck] = []
        self._sealed: dict[str, str] = {}
        self._thread = ThreadPoolExecutor(1, "parley-checks")
        self._begun: list[Future[None]] = []
        self._failed: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None or isinstance(error, Exception):
                self.require()
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def require(self) -> None:
        """Wait for all checks.

        Raises:
            StoppedByCheck: A blocking expectation failed.
        """
        for check in self._begun:
            check.result()
        if self._failed is not None:
            raise StoppedByCheck(self._failed)

    def dialogs(self) -> None:
        """Check the staged dialogs."""
        names = ["problem_id", "row_digest"]
        problems = self._plan.staged.problems.table(names)
        ids, digests = (problems[name].to_pylist() for name in names)
        turns = {name: len(lengths) - 1 for name, lengths in self._plan.context_lengths.items()}
        self._check(
            "dialogs",
            self._staged("dialogs"),
            problem_digests=dict(zip(ids, digests, strict=True)),
            context_turns=turns,
        )

    def problems(self) -> None:
        """Check the staged problems, and the counts of staged and quarantined rows."""
        staged = self._plan.staged
        self._check(
            "problems",
            self._staged("problems"),
            n_input=staged.n_input,
            n_quarantined=len(staged.quarantined),
        )

    def episodes(self) -> None:
        """Check the run's episodes."""
        plan = self._plan
        digests = plan.dataset.digests.to_pylist()
        rounds = (
            dict(zip(digests, (due.rounds for due in plan.dues), strict=True))
            if plan.has_exact_rounds
            else None
        )
        self._seal("episodes", "run_episodes")
        parts, names = plan.lake.parts("run_episodes", **plan.keys), ("problem_id", "sample")
        contained = plan.lake.read_arrow("run_episodes", parts, ["episode_id", *names])
        ids, *facts = (contained[name].to_pylist() for name in ("episode_id", *names))
        self._check(
            "episodes",
            plan.episodes.chosen(plan.members.ids),
            wanted_episodes=frozenset(plan.members.ids.to_pylist()),
            episode_facts=self._facts,
            contained_episodes=dict(zip(ids, zip(*facts, strict=True), strict=True)),
            check_served_model=plan.subject.policy.check_served_model or None,
            dialog_rounds=rounds,
        )

    def test_verdicts(
        self,
        verdicts: pa.Table,
        episodes: PackedRows[Episode],
        expected: frozenset[tuple[str, int, str]],
    ) -> None:
        """Check test verdicts, and that the given episodes have all required ones.

        Args:
            expected: (episode id, turn, instruction id) of each required verdict.
        """
        self._seal("test_verdicts")
        if not self._plan.runs_programs:
            return
        self._check(
            "test_verdicts",
            verdicts,
            episode_rounds=self._rounds(episodes),
            episode_facts=self._facts,
            expected_verdicts=expected,
            wall_limit_s=self._plan.spec.limits.wall_s,
        )

    def forgery_audit(
        self, audits: Sequence[ForgeryAudit], expected: Mapping[tuple[str, int, str], str]
    ) -> None:
        """Check the rows of `forgery_audit`.

        Args:
            expected: Verdict id of each audited pass, by (episode id, turn, instruction id).
        """
        if not self._plan.audits:
            return
        self._seal("forgery_audit")
        self._check("forgery_audit", audits, episode_facts=self._facts, expected_audits=expected)

    def judgements(
        self,
        judged: Sequence[JudgeVerdict],
        episodes: PackedRows[Episode],
        expected: frozenset[tuple[str, int, str, str]],
    ) -> None:
        """Check the judgements.

        Args:
            expected: (episode id, turn, rubric, dimension) of each required judgement.
        """
        plan = self._plan
        if not plan.judges:
            return
        self._seal("judge_verdicts")
        rubrics = plan.benchmark.rubrics(plan.spec.setting)
        self._check(
            "judge_verdicts",
            judged,
            episode_rounds=self._rounds(episodes),
            episode_facts=self._facts,
            judges={name: judge.access.label for name, judge in plan.judges.items()},
            judgement_ranges={
                (rubric.name, name): ends
                for rubric in rubrics
                for name, ends in rubric.ranges.items()
            },
            expected_judgements=expected,
        )

    def scores(self, episodes: PackedRows[Episode]) -> None:
        """Check the scores in the lake, from which the warehouse is published."""
        plan, benchmark, due = self._plan, self._plan.benchmark, self._due(episodes)
        self._seal("scores")
        self._check(
            "scores",
            _whole_files("scores", plan.lake.parts("scores", **plan.keys)),
            episode_rounds={name: episode_due.last_turn for name, episode_due in due.items()},
            episode_facts=self._facts,
            metric_ranges={
                name: benchmark.scores.ranges.get(name, (0.0, 1.0))
                for name in benchmark.metrics_of(plan.spec.setting)
            },
            due_scores={name: episode_due.scores for name, episode_due in due.items()},
            implications=tuple(Implication(*implied) for implied in benchmark.scores.implications),
        )

    @cached_property
    def _facts(self) -> RowFacts:
        """Values that each episode's id is computed from. The episode's row must equal them."""
        spec, rows = self._plan.spec, self._plan.members.rows.drop_columns("at")
        for name in ("setting", "dataset_version"):
            rows = rows.append_column(name, pa.repeat(getattr(spec, name), rows.num_rows))
        return RowFacts(rows, "episode_id")

    def _rounds(self, episodes: PackedRows[Episode]) -> dict[str, int]:
        """Map each episode to the last round that rows of other tables may name.

        A fault may end an episode before the answer of a round. Rows about the missing answer name
        that round and have no score.
        """
        due = self._due(episodes)
        return {
            e.episode_id: episode_due.last_turn
            if (episode_due := due[e.episode_id]).is_exact
            else _last_round(e, episode_due.last_turn)
            for e in episodes
        }

    def _due(self, episodes: PackedRows[Episode]) -> dict[str, Due]:
        rows = episodes.table(["episode_id", "row_digest"])
        names = rows["episode_id"].to_pylist()
        return dict(zip(names, self._plan.dues_of(rows["row_digest"]), strict=True))

    def _staged(self, table: str) -> LakeRows:
        spec, staged = self._plan.spec, self._plan.staged
        folder = self._plan.lake.folder(
            table, benchmark=spec.benchmark, dataset_version=spec.dataset_version
        )
        return _whole_files(table, [folder / f"part-{staged.digest}.parquet"])

    def _folder(self, table: str) -> Path:
        return self._plan.lake.folder(table, **self._plan.keys)

    def _seal(self, *tables: str) -> None:
        """Store a digest of a table's files before its rows are checked."""
        self._sealed.update({table: table_seal(self._folder(table)) for table in tables})

    def _check(
        self, table: str, rows: Sequence[BaseModel] | pa.Table | LakeRows, **facts: object
    ) -> None:
        plan = self._plan
        context = CheckContext(
            run_id=plan.run_id,
            benchmark=plan.spec.benchmark,
            model=plan.spec.label,
            checked_at=utc_now(),
            docs_dir=plan.home.docs,
            fault_limit=plan.request.max_fault_share,
            **facts,  # type: ignore[arg-type]  (fields of CheckContext by name; the suites' tests hold their types)
        )
        if isinstance(rows, LakeRows):
            # The process of the checks has no key for an object store.
            data = rows.read() if plan.home.is_store else rows
        else:
            data = rows if isinstance(rows, pa.Table) else to_arrow(table, rows)
        begin = copy_context().run  # Prefect's task belongs to the flow of the calling thread.
        self._begun.append(self._thread.submit(begin, self._run, table, data, context))

    def _run(self, table: str, data: pa.Table | LakeRows, context: CheckContext) -> None:
        if self._failed is not None:
            return
        checks = run_task(
            "check quality",
            f"{table} · {self._title}",
            lambda: self._check_table(table, data, context),
            action="check",
        )
        self._checks += checks
        if blocking_failures(checks):
            self._failed = table

    def finish(self) -> Checked:
        """Store the checks in the lake. A file that changed after its check fails a check."""
        plan = self._plan
        changed = [
            table
            for table, sealed in self._sealed.items()
            if table_seal(self._folder(table)) != sealed
        ]
        self._checks += [self._changed(table) for table in changed]
        plan.lake.write_part("quality_checks", self._checks, "checks", **plan.keys)
        return Checked(
            tuple(blocking_failures(self._checks)),
            index_path(plan.home.docs, plan.run_id),
            run_seal({table: self._folder(table) for table in SEALED}),
        )

    def _changed(self, table: str) -> QualityCheck:
        plan = self._plan
        return QualityCheck(
            run_id=plan.run_id,
            benchmark=plan.spec.benchmark,
            model=plan.spec.label,
            table_name=table,
            suite=f"{table}: the files",
            expectation="files_unchanged",
            success=False,
            crashed=False,
            blocking=True,
            detail=f"files in {self._folder(table)} changed after they were checked",
            checked_at=utc_now(),
        )


def _whole_files(table: str, parts: Iterable[Path]) -> LakeRows:
    return LakeRows(table, tuple((part, None) for part in parts))


def _last_round(episode: Episode, most: int) -> int:
    messages = max((step.turn for step in episode.messages), default=0)
    is_cut = episode.stop_reason not in (StopReason.FINISHED, StopReason.TURN_LIMIT)
    return max(messages, min(messages + is_cut, most))

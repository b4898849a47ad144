"""Jobs that the driver sends to workers, and their results.

Jobs and results can be pickled, and contain no API key.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.problem import Problem
from schemas.run import EmbedderIdentity, EndpointProfile, RunSpec, Sampling
from schemas.verdict import TestVerdict
from tasks.benchmarks.program_runs import TestRun
from tasks.language.access import ModelAccess
from tasks.language.chat_model import Message
from tasks.storage.home import Home, find_home
from tasks.storage.journaling.dialogue_calls import Unfinished
from tasks.storage.journaling.leases import ShardLease, lease_shard
from tasks.storage.parquet_store import Lake
from tasks.worker.budget_meter import BudgetMeter
from tasks.worker.call_log import CallLog

R = TypeVar("R")


def run_packed(function: Callable[[Any], R], packed: bytes) -> R:
    """Run a function on a pickled job.

    Dask's scheduler in the driver would unpickle a job object. It passes bytes on unchanged.
    """
    return function(pickle.loads(packed))


def home_seen_by_worker(home: str, lake: str | None) -> Home:
    """Return the driver's home on a shared file system.

    If the lake is in an object store, return this machine's own home with that lake.
    """
    shared = Home(Path(home), lake)
    return Home(find_home().path, lake) if shared.is_store else shared


@dataclass(frozen=True)
class StageContext:
    """Facts that all shards of one stage of a run share.

    Attributes:
        home: Path of the driver's home.
        invocation: Name of the driver's invocation and attempt. Only the worker that holds a
            shard's lease in the current attempt may write results of the shard.
        fsync: Flush each written answer and part to the disk.
        budget_meter: Meter that enforces the budget caps of the invocation; None without caps.
        lake: Folder or URL of the lake, if it is not in the home.
        calls: Log of model calls, or None if no metrics are exported.
    """

    home: str
    invocation: str
    spec: RunSpec
    fsync: bool = field(default=False, kw_only=True)
    budget_meter: BudgetMeter | None = field(default=None, kw_only=True)
    lake: str | None = field(default=None, kw_only=True)
    calls: CallLog | None = field(default=None, kw_only=True)

    @property
    def place(self) -> Home:
        """Return the home as this process sees it."""
        return home_seen_by_worker(self.home, self.lake)

    @cached_property
    def run_id(self) -> str:
        """Return the id of the run, computed once from its spec."""
        return self.spec.run_id

    @property
    def key(self) -> str:
        """Return the key of the stage's open resources in a worker process."""
        return self.run_id

    def write_part(self, table: str, rows: Sequence[BaseModel], name: str) -> None:
        """Write rows of the run as one part of a table of the lake.

        Raises:
            OSError: The part could not be written.
        """
        keys = {"benchmark": self.spec.benchmark, "model": self.spec.label, "run_id": self.run_id}
        Lake(self.place.lake, fsync=self.fsync).write_part(table, rows, name, **keys)

    def lease(self, shard: str, *, over: bool = False) -> ShardLease:
        """Lease a shard of the current attempt. See `lease_shard`."""
        return lease_shard(self.place.tries(self.key) / self.invocation, shard, over=over)


@dataclass(frozen=True)
class RunContext(StageContext):
    """Facts that all shards of dialogues and programs share.

    Attributes:
        subject: Access to the subject, with the concurrency of one worker process.
        simulator: Access to the simulator. If both use one endpoint, they share one limit.
        concurrency: Maximum number of episodes in progress in one worker process. Each has at most
            one request in flight.
        environment: Fingerprint of the sandbox, part of every verdict's id.
        staged: Name of the lake's parts with the dataset's dialogs and problems.
        shards_at_once: Maximum number of shards in flight on all workers, if the concurrency is
            smaller than the number of workers.
        programs: Maximum number of parallel programs per worker process.
        embedder: Access to the embedder; None if no participant of the dialogue needs vectors.
        resources: (name, folder) pairs with the trees of programs.
    """

    subject: ModelAccess
    simulator: ModelAccess | None
    concurrency: int
    environment: str
    staged: str
    shards_at_once: int | None = None
    programs: int = 1
    embedder: ModelAccess[EmbedderIdentity] | None = None
    resources: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ShardResult:
    """Counts of one shard. The shard's items are dialogues, programs to audit, or judgements."""

    n_items: int
    n_infra: int = 0
    """Number of items that ended as infra. For an ExecuteShard: number of such programs."""
    part: str = ""
    """Name of the shard's Parquet part."""
    model_calls: int = 0
    n_run: int = 0
    """Number of programs that were run."""
    finished: tuple[str, ...] = ()
    """Ids of the episodes that are not pending any more."""
    error: str | None = None
    """Example of the faults that ended items as infra."""
    permanent: bool = False
    """True if items ended as infra, and another attempt in this night cannot help."""
    n_cut: int = 0
    """Number of items that a budget cap stopped or prevented. No other count includes them."""
    profiles: tuple[tuple[str, EndpointProfile], ...] = ()
    """Pairs of role and endpoint properties that this process knows."""


@dataclass(frozen=True)
class EpisodeJob:
    """Pending episode: positions of its staged rows, and stored calls."""

    episode_id: str
    row_digest: str
    problem_id: str
    dialog_at: int
    """Position of the dialog in the part of staged dialogs."""
    problem_at: int
    """Position of the problem in the part of staged problems."""
    sample: int
    seed: int
    begun: Unfinished
    """Stored calls of earlier attempts."""

    @property
    def attempt(self) -> int:
        """Return the 1-based number of the attempt."""
        return self.begun.attempt + 1


@dataclass(frozen=True)
class ConverseShard:
    """Dialogues for one worker process to play."""

    context: RunContext
    episodes: tuple[EpisodeJob, ...]


@dataclass(frozen=True)
class ExecuteItem:
    """Finished dialogue with pending programs, and the problem and dialog that define them."""

    episode: Episode
    problem: Problem
    dialog: Dialog


@dataclass(frozen=True)
class ExecuteShard:
    """Programs for one worker process to run, with the verdicts of earlier runs."""

    context: RunContext
    name: str
    """Name of the shard's part: a digest of the verdicts to determine."""
    items: tuple[ExecuteItem, ...]
    known: Mapping[str, TestVerdict] = field(default_factory=dict[str, TestVerdict])
    """Verdicts of earlier runs by id. Their programs do not run again."""
    is_early: bool = False
    """True if dialogues may still be played. The programs then run at low priority."""


@dataclass(frozen=True)
class Pass:
    """Passed test verdict that an audit covers."""

    episode_id: str
    problem_id: str
    sample: int
    turn: int
    instruction_id: str
    verdict_id: str
    cases: tuple[str, ...] = ()
    """Names of the program's cases that decided the verdict. Empty if all cases decided it."""


@dataclass(frozen=True)
class AuditItem:
    """Program to audit, with the passed verdicts that it decided."""

    program: str
    """Verdict id of the program with all its cases."""
    test: TestRun
    passes: tuple[Pass, ...]


@dataclass(frozen=True)
class AuditShard:
    """Programs to audit for one worker process."""

    context: RunContext
    name: str
    items: tuple[AuditItem, ...]


@dataclass(frozen=True)
class JudgeContext(StageContext):
    """Facts that all judgements of a run share."""

    judges: Mapping[str, ModelAccess]
    """Access to each rubric's judge, with the concurrency of one worker process."""
    reworded: frozenset[str] = frozenset()
    """Rubrics whose wording comes from a user's templates."""

    @cached_property
    def samplings(self) -> Mapping[str, Sampling]:
        """Map each rubric to its judge's sampling."""
        return {judge.rubric: judge.sampling for judge in self.spec.judges}

    @property
    def key(self) -> str:
        """Return the key of the judgements' open resources in a worker process."""
        return f"judge {self.run_id}"


@dataclass(frozen=True)
class JudgeJob:
    """Pending judgement. Problem, turn and sample are those of the first dialogue that needs it."""

    judgement_id: str
    rubric: str
    messages: tuple[Message, ...]
    """Complete prompt, with the format of the answer."""
    problem_id: str
    turn: int
    sample: int
    dialog_id: str = ""


@dataclass(frozen=True)
class JudgeShard:
    """Judgements for one worker process to request."""

    context: JudgeContext
    name: str
    """Digest of the shard's judgements and the attempt."""
    jobs: tuple[JudgeJob, ...]


@dataclass(frozen=True)
class Progress:
    """Work of a process since its last report."""

    run_id: str
    stage: str
    episodes: int = 0
    faults: int = 0
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    simulator_input_tokens: int = 0
    """Part of `input_tokens` that the simulator read."""
    simulator_output_tokens: int = 0
    """Part of `output_tokens` that the simulator wrote."""
    programs: int = 0
    answers: int = 0
    """Number of answers whose tests have run."""
    runs: int = 0
    """Number of sandbox runs of tests and audits."""
    images: int = 0
    """Number of pulled Docker images."""
    pulls: int = 0
    """Change in the number of pulls in progress."""
    image_mb: int = 0
    """Received MiB of images."""


INFRA_SUFFIX = "-infra"
"""Suffix of the name of a part with infra verdicts. Such a part is not finished."""

"""Jobs that the driver sends to a worker, and their results. All of them pickle; none holds a key."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from schemas.dialog import Dialog
from schemas.endpoint_profile import EndpointProfile
from schemas.episode import Episode, Step
from schemas.problem import Problem
from schemas.run import ModelEndpoint, RubricJudge, RunSpec
from schemas.verdict import TestVerdict
from tasks.benchmarks.program_runs import TestRun
from tasks.language.chat_model import Completion, Message
from tasks.language.embedding import EmbedderAccess
from tasks.storage.home import Home, find_home
from tasks.worker.budget_meter import BudgetMeter
from tasks.worker.call_log import CallLog

R = TypeVar("R")


def run_packed(function: Callable[[Any], R], packed: bytes) -> R:
    """Run a function on a pickled job. Dask's scheduler, in the driver, unpickles what it passes on: bytes cost it nothing."""
    return function(pickle.loads(packed))


def home_seen_by_worker(home: str, lake: str | None) -> Home:
    """The driver's home, on a file system that all share. With a lake in a store it is a home of this machine's own."""
    seen = Home(Path(home), lake)
    return Home(find_home().path, lake) if seen.is_store else seen


@dataclass(frozen=True)
class RunContext:
    """Facts that all shards of a run share.

    Attributes:
        home: path of the driver's home.
        lake: folder or URL of the lake, where it is not in the home.
        invocation: names the driver's invocation and try: only the holder of a shard in a try that goes on may write for it.
        concurrency: episodes that one worker process may have under way for this run; each has at most one request in flight.
        subject_concurrency: requests to the subject's endpoint that one worker process may have in flight.
        simulator_concurrency: the same for the simulator's. On one endpoint both share it.
        shards_at_once: shards under way on all workers together, where the concurrency is smaller than the number of workers.
        staged: name of the parts of the lake that hold the dataset's dialogs and problems.
        programs: programs that one worker process may run at the same time.
        embedder: where seats reach it; None where they ask for no vectors.
        environment: the sandbox's fingerprint, part of every verdict's id.
        budget_meter: the caps of the invocation; None where it has none.
        calls: log of model calls; None where no metrics are exported.
        resources: (name, folder) that programs' trees lie in.
    """

    home: str
    invocation: str
    spec: RunSpec
    subject: ModelEndpoint
    simulator: ModelEndpoint | None
    concurrency: int
    subject_concurrency: int
    simulator_concurrency: int
    environment: str
    staged: str
    shards_at_once: int | None = None
    programs: int = 1
    fsync: bool = False
    check_served_model: bool = True
    timeout_s: float = 300.0
    patience_s: float = 300.0
    embedder: EmbedderAccess | None = None
    budget_meter: BudgetMeter | None = None
    calls: CallLog | None = None
    lake: str | None = None
    resources: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> Home:
        """The home as this process sees it."""
        return home_seen_by_worker(self.home, self.lake)

    @cached_property
    def run_id(self) -> str:
        """The spec's, digested once."""
        return self.spec.run_id

    @property
    def key(self) -> str:
        """Name under which a worker process holds things open for the shards."""
        return self.run_id


@dataclass(frozen=True)
class ShardResult:
    """Counts of one shard. Its items are dialogues, programs to audit, or judgements."""

    n_items: int
    n_infra: int = 0
    """Items that ended as infra; of a shard of programs, the programs."""
    part: str = ""
    """Name of its Parquet part."""
    model_calls: int = 0
    n_run: int = 0
    """Programs that were run."""
    finished: tuple[str, ...] = ()
    """Ids of the episodes that are not pending any more."""
    error: str | None = None
    """An example of the faults that ended items as infra."""
    permanent: bool = False
    """There were faults, and asking again in this night cannot help with any of them."""
    n_cut: int = 0
    """Items that a cap of the budget stopped, or kept from being begun. They are not among the others."""
    profiles: tuple[tuple[str, EndpointProfile], ...] = ()
    """(role, what this process knows of its endpoint)."""


@dataclass(frozen=True)
class EpisodeJob:
    """One pending episode, by the places of its staged rows in the lake, with the messages of an earlier attempt."""

    episode_id: str
    row_digest: str
    problem_id: str
    dialog_at: int
    """Place of its dialog in the dataset's part of the lake."""
    problem_at: int
    """Place of its problem in that part of theirs."""
    sample: int
    seed: int
    attempt: int
    steps: tuple[Step, ...] = ()
    answers: tuple[tuple[str, Completion], ...] = ()
    """(key of the request, answer) of what it was answered beyond that (`paid_answers`), in the order of asking."""


@dataclass(frozen=True)
class ConverseShard:
    """Dialogues for one worker process, and the facts that all shards of the run share."""

    context: RunContext
    episodes: tuple[EpisodeJob, ...]


@dataclass(frozen=True)
class ExecuteItem:
    """One played dialogue whose programs are due, with the task and dialog that decide them."""

    episode: Episode
    problem: Problem
    dialog: Dialog


@dataclass(frozen=True)
class ExecuteShard:
    """Programs for one worker process: dialogues, and verdicts of earlier runs that need no program."""

    context: RunContext
    name: str
    """Name of its part: a digest of the verdicts that it will decide."""
    items: tuple[ExecuteItem, ...]
    known: Mapping[str, TestVerdict] = field(default_factory=dict[str, TestVerdict])
    """Verdicts of earlier runs that its programs need, by id."""


@dataclass(frozen=True)
class Pass:
    """One test verdict that passed: what an audit's row is about."""

    episode_id: str
    problem_id: str
    sample: int
    turn: int
    instruction_id: str
    verdict_id: str
    cases: tuple[str, ...] = ()
    """Names of the program's cases that decided it; none where all did."""


@dataclass(frozen=True)
class AuditItem:
    """One program to audit, with a pass for each verdict that it decided."""

    program: str
    """Verdict id of the program as a whole."""
    test: TestRun
    passes: tuple[Pass, ...]


@dataclass(frozen=True)
class AuditShard:
    """Programs to audit for one worker process."""

    context: RunContext
    name: str
    items: tuple[AuditItem, ...]


@dataclass(frozen=True)
class JudgeSeat:
    """Who judges by one rubric, where, and with how many requests at once in one worker process."""

    judge: RubricJudge
    endpoint: ModelEndpoint
    concurrency: int
    check_served_model: bool = True
    timeout_s: float = 300.0
    patience_s: float = 300.0


@dataclass(frozen=True)
class JudgeContext:
    """Facts that all judgements of a run share."""

    home: str
    invocation: str
    """As `RunContext.invocation`."""
    run_id: str
    benchmark: str
    seats: Mapping[str, JudgeSeat]
    """By rubric."""
    fsync: bool = False
    budget_meter: BudgetMeter | None = None
    """The caps of the invocation; None where it has none."""
    lake: str | None = None
    reworded: frozenset[str] = frozenset()
    """Rubrics that a user's templates word."""
    calls: CallLog | None = None
    """Log of model calls; None where no metrics are exported."""

    @property
    def place(self) -> Home:
        """As `RunContext.place`."""
        return home_seen_by_worker(self.home, self.lake)

    @property
    def key(self) -> str:
        """As `RunContext.key`: a run's judgements are opened and closed beside its dialogues."""
        return f"judge {self.run_id}"


@dataclass(frozen=True)
class JudgeJob:
    """One judgement that is pending. Problem, dialogue, turn and sample are those of the first dialogue that asks for it."""

    judgement_id: str
    rubric: str
    messages: tuple[Message, ...]
    """The whole prompt, with the form of the answer."""
    problem_id: str
    turn: int
    sample: int
    dialog_id: str = ""


@dataclass(frozen=True)
class JudgeShard:
    """Judgements for one worker process to ask for."""

    context: JudgeContext
    name: str
    """A digest of what it asks for, and in which try."""
    jobs: tuple[JudgeJob, ...]


@dataclass(frozen=True)
class Progress:
    """A worker process's work since its last report."""

    run_id: str
    stage: str
    episodes: int = 0
    faults: int = 0
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    simulator_input_tokens: int = 0
    """Those of `input_tokens` that the simulator read."""
    simulator_output_tokens: int = 0
    """Those of `output_tokens` that the simulator wrote."""
    programs: int = 0
    answers: int = 0
    """Answers that were tested."""
    runs: int = 0
    """Sandbox runs which that took."""
    images: int = 0
    """Docker images that were pulled."""
    pulls: int = 0
    """Change in the number of pulls under way."""
    image_mb: int = 0
    """MiB of images that came."""


INFRA_SUFFIX = "-infra"
"""Ends the name of a part that holds infra verdicts: it does not count as done."""


def is_infra(verdict: TestVerdict) -> bool:
    """Whether machine or service kept the verdict from being found."""
    return verdict.outcome.value == "infra"

"""Jobs that the driver sends to a worker, and their results. All of them pickle; none holds a key."""

from dataclasses import dataclass
from functools import cached_property

from schemas.dialog import Dialog
from schemas.episode import Episode, Step
from schemas.problem import Problem
from schemas.run import ModelEndpoint, RunSpec
from schemas.verdict import ProgramVerdict, TestVerdict
from tasks.language.chat_model import Completion


@dataclass(frozen=True)
class RunContext:
    """Facts that all shards of a run share.

    Attributes:
        home: path of the Parley home, the same for driver and workers.
        invocation: names the driver's invocation and try: only the holder of a shard in a try that goes on may write for it.
        concurrency: model requests that one worker process may have in flight for this run.
        shards_at_once: shards under way on all workers together, where the concurrency is smaller than the number of workers.
        programs: programs that one worker process may run at the same time.
        environment: the sandbox's fingerprint, part of every verdict's id.
    """

    home: str
    invocation: str
    spec: RunSpec
    subject: ModelEndpoint
    simulator: ModelEndpoint | None
    concurrency: int
    environment: str
    shards_at_once: int | None = None
    programs: int = 1
    fsync: bool = False
    check_served_model: bool = True
    timeout_s: float = 300.0
    patience_s: float = 300.0

    @cached_property
    def run_id(self) -> str:
        """The spec's, digested once."""
        return self.spec.run_id


@dataclass(frozen=True)
class EpisodeJob:
    """One owed episode, with the messages of an earlier attempt."""

    episode_id: str
    problem: Problem
    dialog: Dialog
    sample: int
    seed: int
    attempt: int
    steps: tuple[Step, ...] = ()
    answers: tuple[tuple[str, Completion], ...] = ()
    """(key of the request, answer) of what it was answered beyond that (`paid_answers`), in the order of asking."""


@dataclass(frozen=True)
class ConverseShard:
    context: RunContext
    episodes: tuple[EpisodeJob, ...]


@dataclass(frozen=True)
class ConverseResult:
    """One shard's results. `part` is the name of its Parquet part."""

    part: str
    n_episodes: int
    n_infra: int
    model_calls: int
    n_run: int = 0
    """Programs that were run within the dialogues."""
    finished: tuple[str, ...] = ()
    """Ids of the episodes that are not owed any more."""
    error: str | None = None
    """An example of the faults that made episodes infra."""
    permanent: bool = False
    """There were faults, and asking again in this night cannot help with any of them."""


@dataclass(frozen=True)
class ExecuteItem:
    episode: Episode
    problem: Problem
    dialog: Dialog


@dataclass(frozen=True)
class ExecuteShard:
    context: RunContext
    name: str
    """Name of its part: a digest of the verdicts that it will decide."""
    items: tuple[ExecuteItem, ...]
    known: tuple[ProgramVerdict, ...] = ()
    """Verdicts that an earlier run has paid for."""


@dataclass(frozen=True)
class ExecuteResult:
    part: str
    n_episodes: int
    n_run: int
    n_infra: int
    error: str | None = None


@dataclass(frozen=True)
class Progress:
    """A worker process's work since its last report."""

    run_id: str
    stage: str
    episodes: int = 0
    faults: int = 0
    turns: int = 0
    output_tokens: int = 0
    programs: int = 0


INFRA_SUFFIX = "-infra"
"""Ends the name of a part that holds infra verdicts: it does not count as done."""


def is_infra(verdict: TestVerdict) -> bool:
    """Whether machine or service kept the verdict from being found."""
    return verdict.outcome.value == "infra"

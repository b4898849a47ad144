"""Records of runs, models, nights, checks, releases and served models.

Each class is a row of its table. No id contains them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from schemas.base import EpisodeRow, Frozen, RunRow
from schemas.content_id import content_id
from schemas.night.budget import CapSpent
from schemas.night.work import RunWork

RunStatus = Literal["finished", "withheld", "incomplete"]


def utc_now() -> str:
    """Return the present time as records contain it: UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class RoleSampling(Frozen):
    """Sampling of one role in a run, within the bounds of the setting."""

    role: Literal["subject", "simulator", "judge"]
    rubric: str = ""
    """Rubric of a judge; empty for the other roles."""
    model: str
    temperature: float | None = None
    """Sampling temperature; None if the endpoint's default applied."""
    top_p: float
    max_tokens: int | None = None
    """Limit of an answer's tokens; None if only the endpoint limited them."""
    stop: tuple[str, ...] = ()
    request: tuple[tuple[str, str], ...] = ()
    """Further fields of the role's requests: (name, JSON)."""
    system_prompt: str = ""
    """Digest of the system prompt that was configured for the model; empty if there is none."""


class RunRecord(Frozen):
    """State of a run after its latest invocation: one row of `runs`."""

    run_id: str
    night_id: str
    """Latest night (or single `parley run`) that worked on the run."""
    benchmark: str
    model: str
    setting: str
    dataset_version: str
    revision: str = ""
    """Revision of the subject. It shows drift of hosted models, night by night."""
    spec_json: str
    """RunSpec as canonical JSON."""
    sandbox: str
    isolated: bool
    """False for runs of `--sandbox none`. Every table shows it."""
    samples: int
    seed: int
    status: RunStatus
    withheld_reason: str | None = None
    started_at: str
    finished_at: str
    n_episodes: int = Field(ge=0)
    n_owed: int = Field(ge=0)
    """Number of episodes that are still pending at the end of the invocation."""
    n_infra: int = Field(ge=0)
    n_unscored: int = Field(ge=0)
    """Number of scores missing because of a fault. Scores without a value by definition are not
    counted."""
    n_truncated: int = Field(ge=0)
    """Number of answers cut off at max_tokens."""
    n_tampered: int = Field(default=0, ge=0)
    """Number of test verdicts with `tampering` in `test_verdicts.reason`."""
    n_refused: int = Field(default=0, ge=0)
    """Number of episodes that a refused prompt ended."""
    n_empty: int = Field(default=0, ge=0)
    """Number of the subject's answers without text."""
    n_cut_off: int = Field(default=0, ge=0)
    """Number of empty answers that reached the token limit while the model was thinking."""
    n_unreadable: int = Field(default=0, ge=0)
    """Number of answers in which the run's `extraction` option found no program. The tests run on
    their whole text."""
    batched: tuple[str, ...] = ()
    """Roles whose requests went to the batch API, at half the price: `subject`, `judge LABEL`."""
    adapted: tuple[tuple[str, str], ...] = ()
    """Changes to requests, made because the endpoint refused a part of them: (role, change), such
    as `without seed`."""
    profiles: tuple[tuple[str, str], ...] = ()
    """Profiles of the roles' endpoints, as JSON: (role, refused parameters, form of messages and
    places of thoughts)."""
    endpoints: tuple[tuple[str, str], ...] = ()
    """Facts that endpoints report about their models: (role, facts), such as `root /weights/a,
    base_url http://10.0.0.7:8000/v1`."""
    samplings: tuple[RoleSampling, ...] = ()
    """Sampling of each role that a model plays. Empty in runs of older versions."""
    model_calls: int = Field(ge=0)
    """Number of requests that the latest invocation sent."""
    docs_path: str | None = None
    state_digest: str | None = None
    """Digest of everything that this state was made from (requested episodes, sandbox environment,
    metric versions). While it stays the same, there is nothing to do. None unless the run is
    finished."""
    parley_version: str
    state: tuple[tuple[str, str], ...] = ()
    """Ingredients of `state_digest`, by name. An incomplete run keeps the ingredients of its
    earlier record."""
    task_share: float | None = Field(default=None, gt=0, le=1)
    """Share of the dataset's tasks that the run has (above 0, at most 1); None if it has all."""
    subsample_seed: int | None = None
    """Seed that chose a budget's subsample, if the latest request was for a subsample."""
    work: RunWork | None = None
    """Work that the latest invocation did for the run, and the reasons."""


class RunEpisode(EpisodeRow):
    """Membership of one episode in one run."""


class ModelRecord(Frozen):
    """Model as the tables describe it."""

    model: str
    provider: str
    name: str
    revision: str
    weights_digest: str
    chat_template: str
    usd_per_million_input: float | None = Field(default=None, ge=0)
    usd_per_million_output: float | None = Field(default=None, ge=0)
    usd_per_hour: float | None = Field(default=None, ge=0)
    """Price of the model's server in USD per hour, if Parley starts it."""


class NightRecord(Frozen):
    """One invocation of `nightly` (or of `run`), with its runs."""

    night_id: str
    started_at: str
    finished_at: str
    run_ids: tuple[str, ...]
    n_published: int = Field(ge=0)
    n_withheld: int = Field(ge=0)
    work: tuple[RunWork, ...] = ()
    """Work of each run: reused work, paid work and the reasons."""
    budget: tuple[CapSpent, ...] = ()
    """Amounts spent of each cap; empty if there were no caps."""


class QualityCheck(RunRow):
    """Result of one expectation on one table of one run (or dataset)."""

    table_name: str
    suite: str
    expectation: str
    column_name: str | None = None
    success: bool
    crashed: bool
    """True if the expectation could not run: an error of the check, not of the data."""
    blocking: bool
    unexpected_count: int | None = Field(default=None, ge=0)
    element_count: int | None = Field(default=None, ge=0)
    detail: str = ""
    checked_at: str
    docs_path: str | None = None


SourceKind = Literal["directory", "recordings", "repository", "endpoint"]


class Checkpoint(Frozen):
    """Checkpoint that a night took from a source. Its digest is the `revision` of its runs."""

    digest: str
    """Digest of the checkpoint's content. For a directory: weights, tokenizer and chat template.
    For a repository: its commit. For an endpoint: its address and model name."""
    family: str
    """Name that the successive checkpoints of one model share."""
    step: int | None = Field(default=None, ge=0)
    """Training step, from the checkpoint's name or its trainer's state; None if neither contains
    it."""
    model: str
    """Label of the model under test, as in `runs`, but without an agent's name."""
    kind: SourceKind
    source: str
    """Folder, repository or address, as in the configuration."""
    path: str
    """Latest place of the checkpoint: folder, file, or name within the source."""
    changed_at: str
    """Time of the last change, UTC, from its files or its source; empty if unknown."""
    found_at: str
    """Time when a night first took the checkpoint, UTC."""


RESULT_TABLES = (
    *("episodes", "run_episodes", "test_verdicts"),
    *("forgery_audit", "judge_verdicts", "scores"),
)
"""Tables with the results of a run."""
SEAL_PREFIX = "seal."
"""Prefix of the names under which a record stores its seal, in `state`."""


class Release(RunRow):
    """Release of a run that its checks withhold.

    Other results of the same run need another release.
    """

    because: str
    withheld_reason: str
    """Reason why the run was withheld at the time of its release."""
    released_at: str
    """Time of the release: UTC, ISO 8601."""
    results_digest: str
    """Digest of the results that were released."""
    released_by: str = ""
    """Name of the user's account; empty in releases of earlier versions."""
    number: int = Field(default=1, ge=1)
    """1-based number of the release among those of its run. The latest one for the run's present
    results publishes it."""


def results_digest(state: Iterable[tuple[str, str]], finished_at: str) -> str:
    """Return the digest of a run's results: equal for equal files of episodes, verdicts and scores.

    Args:
        state: state of the run's record, which contains the seals of these files.
        finished_at: stands for the results of a record without seals.
    """
    seals = {SEAL_PREFIX + table for table in RESULT_TABLES}
    sealed = sorted(pair for pair in state if pair[0] in seals)
    return content_id(sealed or finished_at)


class Serving(Frozen):
    """Work of one replica during one interval, from two readings of its `/metrics`.

    Counters are differences between the readings. `running`, `waiting` and `kv_cache_share` are
    values of the second one. A server works for all runs of a night that use its model, so a row
    contains the night but no run.
    """

    night_id: str
    model: str
    """Label of the model, without an agent."""
    served_name: str
    """Name under which the server serves the model: the digest of its weights."""
    replica: int = Field(ge=0)
    from_at: str
    to_at: str
    seconds: float = Field(gt=0)
    requests: int = Field(ge=0)
    """Number of requests that finished."""
    prompt_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    prefix_cache_queries: int = Field(ge=0)
    """Number of prompt tokens that were looked up in the prefix cache."""
    prefix_cache_hits: int = Field(ge=0)
    """Number of prompt tokens found in the prefix cache, and therefore not computed again."""
    preemptions: int = Field(ge=0)
    """Number of requests that went back to the queue because the KV cache was full."""
    running: int = Field(ge=0)
    """Number of requests in progress at the end of the interval."""
    waiting: int = Field(ge=0)
    """Number of requests in the queue at the end of the interval."""
    kv_cache_share: float | None = Field(default=None, ge=0)
    """Share of the KV cache in use at the end of the interval (0 to 1)."""
    is_restarted: bool = False
    """True if the server was restarted within the interval. Its counts between the last reading and
    the restart are lost."""


class ServedHours(Frozen):
    """Time that a model server of Parley's was ready for one role of a run, in one night."""

    night_id: str
    run_id: str
    benchmark: str
    model: str
    role: str
    """Role of the model: subject, simulator or judge."""
    role_model: str
    hours: float | None = Field(default=None, ge=0)
    """Hours from the server's start to the end of its use. Runs and roles that share a server share
    its time. None if the night was killed."""
    gpus: float | None = Field(default=None, ge=0)
    """Number of GPUs that the server uses; None if unknown."""

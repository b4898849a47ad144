"""What is kept of runs, models, nights and checks: each class is a row of its table. No id is made of them."""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen
from schemas.night.budget import CapSpent
from schemas.night.work import RunWork

RunStatus = Literal["finished", "withheld", "incomplete"]


class RoleSampling(Frozen):
    """How one role's tokens are drawn in a run, the bounds of the setting included."""

    role: Literal["subject", "simulator", "judge"]
    rubric: str = ""
    """The judge's; empty for the others."""
    model: str
    temperature: float | None = None
    """None where the endpoint's own counts."""
    top_p: float
    max_tokens: int | None = None
    """None where nothing but the endpoint bounds an answer."""
    stop: tuple[str, ...] = ()
    request: tuple[tuple[str, str], ...] = ()
    """(name, JSON) of further fields of its requests."""
    system_prompt: str = ""
    """Digest of the user's own system text; empty without one."""


class RunRecord(Frozen):
    """A run as it stands after its latest invocation: one row of `runs`."""

    run_id: str
    night_id: str
    """The latest night (or single `parley run`) that worked on it."""
    benchmark: str
    model: str
    setting: str
    dataset_version: str
    revision: str = ""
    """The subject's revision. It makes drift of hosted models visible, night by night."""
    spec_json: str
    """Canonical JSON of the RunSpec."""
    sandbox: str
    isolated: bool
    """False for runs of `--sandbox none`: shown in every table."""
    samples: int
    seed: int
    status: RunStatus
    withheld_reason: str | None = None
    started_at: str
    finished_at: str
    n_episodes: int = Field(ge=0)
    n_owed: int = Field(ge=0)
    """Episodes still owed at the end."""
    n_infra: int = Field(ge=0)
    n_unscored: int = Field(ge=0)
    """Scores that are missing through a fault (not those that have no value by definition)."""
    n_truncated: int = Field(ge=0)
    """Answers cut off at max_tokens."""
    n_tampered: int = Field(default=0, ge=0)
    """Test verdicts with the reason `tampering`, which `test_verdicts.reason` lists."""
    n_refused: int = Field(default=0, ge=0)
    """Episodes that ended since a prompt was refused."""
    n_empty: int = Field(default=0, ge=0)
    """Answers of the subject without any text."""
    n_cut_off: int = Field(default=0, ge=0)
    """Empty answers whose tokens ran out within the thought."""
    n_unreadable: int = Field(default=0, ge=0)
    """Answers in which no program was found by the run's `extraction` option. Their tests run on the whole text."""
    batched: tuple[str, ...] = ()
    """Roles whose requests went to batches, at half the price: `subject`, `judge LABEL`."""
    adapted: tuple[tuple[str, str], ...] = ()
    """(role, how its requests differ from what was asked for, since its endpoint refused a part): `without seed`."""
    profiles: tuple[tuple[str, str], ...] = ()
    """(role, profile of its endpoint as JSON): what it refuses, the form of its messages, and where its thoughts are."""
    endpoints: tuple[tuple[str, str], ...] = ()
    """(role, facts that its endpoint tells of the model): `root /weights/a, base_url http://10.0.0.7:8000/v1`."""
    samplings: tuple[RoleSampling, ...] = ()
    """Sampling of each role that a model plays. Empty in runs of older versions."""
    model_calls: int = Field(ge=0)
    """Requests sent by the latest invocation."""
    docs_path: str | None = None
    state_digest: str | None = None
    """Digest of everything this state was made from (wanted episodes, sandbox environment, metric versions). While it stays
    the same, there is nothing to do. None unless finished."""
    parley_version: str
    state: tuple[tuple[str, str], ...] = ()
    """Ingredients of `state_digest`, by name. An incomplete run keeps the ingredients of its earlier record."""
    task_share: float | None = Field(default=None, gt=0, le=1)
    """Share of the dataset's tasks that the run has; None where it has all."""
    subsample_seed: int | None = None
    """Where a budget's subsample was the latest that was asked for: the seed that chose it."""
    work: RunWork | None = None
    """The latest invocation's work for this run, and the reasons."""


class RunEpisode(Frozen):
    """Membership of one episode in one run."""

    run_id: str
    benchmark: str
    model: str
    episode_id: str
    problem_id: str
    sample: int = Field(ge=0)


class ModelRecord(Frozen):
    """A model as the tables know it."""

    model: str
    provider: str
    name: str
    revision: str
    weights_digest: str
    chat_template: str
    usd_per_million_input: float | None = Field(default=None, ge=0)
    usd_per_million_output: float | None = Field(default=None, ge=0)
    usd_per_hour: float | None = Field(default=None, ge=0)
    """Of its server, where Parley starts it."""


class NightRecord(Frozen):
    """One invocation of `nightly` (or of `run`): the runs it lists."""

    night_id: str
    started_at: str
    finished_at: str
    run_ids: tuple[str, ...]
    n_published: int = Field(ge=0)
    n_withheld: int = Field(ge=0)
    work: tuple[RunWork, ...] = ()
    """For each run: how much was reused, how much was paid, and why."""
    budget: tuple[CapSpent, ...] = ()
    """What was spent of each cap; empty where there was none."""


class QualityCheck(Frozen):
    """One expectation's result on one table of one run (or dataset)."""

    run_id: str
    benchmark: str
    model: str
    table_name: str
    suite: str
    expectation: str
    column_name: str | None = None
    success: bool
    crashed: bool
    """The expectation itself failed to run: an error of the check, not a finding about the data."""
    blocking: bool
    unexpected_count: int | None = Field(default=None, ge=0)
    element_count: int | None = Field(default=None, ge=0)
    detail: str = ""
    checked_at: str
    docs_path: str | None = None

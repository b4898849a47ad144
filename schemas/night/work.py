"""One invocation's work for a run: how much it reused, how much it paid for, and why."""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen
from schemas.night.requests import RequestCounts

Layer = Literal["dialogues", "tests", "judgements", "scores", "nothing"]


class Difference(Frozen):
    """One ingredient that differs, and the first layer that it renews. Layers made from that one are renewed with it."""

    field: str
    """Dotted name: `subject.revision`, `environment`, `metrics.NAME`, `rows.DIALOG`, `files.TABLE`, ..."""
    before: str
    after: str
    reruns: Layer


class RunWork(Frozen):
    """One invocation's work for one run, counted and not estimated.

    Answers that a killed invocation paid for appear in the next one, as `n_turns_kept`.
    """

    run_id: str
    title: str
    setting: str
    model: str
    status: str
    n_episodes: int = Field(ge=0)
    """Episodes that the run has, or should have."""
    n_reused: int = Field(ge=0)
    """Finished before this invocation."""
    reused_from: tuple[tuple[str, int], ...] = ()
    """(run that paid, episodes), most first; the run itself among them."""
    n_resumed: int = Field(default=0, ge=0)
    """Taken up again where an earlier attempt stopped."""
    n_turns_kept: int = Field(default=0, ge=0)
    """Models' answers kept from the earlier attempts of resumed episodes: they are not asked for again."""
    n_new: int = Field(default=0, ge=0)
    """Begun in this invocation, at their first message."""
    model_calls: int = Field(default=0, ge=0)
    """Requests that reached an endpoint, refused ones too. A killed worker's requests are counted by its kept answers alone."""
    requests: RequestCounts | None = None
    """None where they are unknown: the invocation was killed, or is of an older Parley."""
    input_tokens: int = 0
    output_tokens: int = 0
    """Tokens of the answers that came in this invocation, as the endpoint counted them."""
    n_unknown_tokens: int = Field(default=0, ge=0)
    """Answers whose tokens the endpoint did not count."""
    usd: float | None = None
    """Cost of these tokens. None where a price or a count is unknown, and where all models cost by the hour alone."""
    usd_hourly: float | None = None
    """Cost of the hours that model servers stood ready for it. None where hours or a price are unknown, or no server has one."""
    programs_run: int = Field(default=0, ge=0)
    programs_reused: int = Field(default=0, ge=0)
    """Programs whose verdict was known already, for the same environment."""
    judgements_asked: int = Field(default=0, ge=0)
    """Judgements that a judge was asked for."""
    judgements_reused: int = Field(default=0, ge=0)
    """Judgements known already, for the same prompt and judge."""
    texts_embedded: int = Field(default=0, ge=0)
    """Texts that the embedder was asked for."""
    embeddings_reused: int = Field(default=0, ge=0)
    """Texts whose vector was known already."""
    compared_with: str | None = None
    """Run that `why` compares with: this run's earlier state, or the latest run of this model and setting; None for the first."""
    why: tuple[Difference, ...] = ()

    @property
    def n_paid(self) -> int:
        """Requests to models that were paid for, or may have been; those that reached an endpoint where no more is known."""
        return (
            self.model_calls
            if self.requests is None
            else self.requests.paid - self.requests.embedder
        )

    @property
    def is_reused(self) -> bool:
        """Whether the run stood finished as wanted, so that nothing was done for it."""
        return self.compared_with == self.run_id and not self.why


class FailedRun(Frozen):
    """A run that an error stopped, or kept from being begun, in one night."""

    night_id: str
    run_id: str
    """Empty where it could not be planned: it has no id then."""
    title: str
    setting: str
    model: str
    reason: str


class StageTime(Frozen):
    """How long one stage of a run took in one night. Runs go side by side, so their stages overlap."""

    night_id: str
    run_id: str
    """Empty for what is the whole night's."""
    title: str
    stage: str
    started_at: str
    seconds: float = Field(ge=0)

"""Work of one invocation for a run: requests, reused work, paid work and the reasons."""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen


class RequestCounts(Frozen):
    """Requests of one invocation for one run, to its subject, simulator, judges and embedder.

    A *send* is one outgoing request. Each send is counted by its reason, asked or repeated, and by
    its end, refused or paid: asked + repeated = refused + paid = sends. Requests that measure the
    drift of judges belong to the night and are left out.
    """

    asked: int = Field(default=0, ge=0)
    """Number of requests that a step needed. Each counts once, at its first send."""
    repeated: int = Field(default=0, ge=0)
    """Number of sends that repeat a request after a fault."""
    refused: int = Field(default=0, ge=0)
    """Number of sends that reached no model: there was no connection, or the endpoint answered with
    an error (401, 404, 429, 503)."""
    paid: int = Field(default=0, ge=0)
    """Number of sends that were answered with content, or broke off after the request was sent. The
    endpoint may have charged for the latter."""

    embedder: int = Field(default=0, ge=0)
    """Number of sends to the embedder, a part of `paid`. A run's cost leaves them out."""

    def __sub__(self, other: "RequestCounts") -> "RequestCounts":
        return RequestCounts(**{name: n - getattr(other, name) for name, n in self})

    @property
    def text(self) -> str:
        """Counts in one line."""
        embedded = f" ({self.embedder} by the embedder)" if self.embedder else ""
        return (
            f"{self.asked} asked, {self.repeated} repeated; "
            f"{self.refused} refused, {self.paid} paid{embedded}"
        )


Layer = Literal["dialogues", "tests", "judgements", "scores", "nothing"]


class Difference(Frozen):
    """Ingredient that differs, and the first layer that it invalidates.

    Layers made from that layer are invalidated, too.
    """

    field: str
    """Dotted name: `subject.revision`, `environment`, `metrics.NAME`, `rows.DIALOG`, `files.TABLE`,
    ..."""
    before: str
    after: str
    reruns: Layer


class RunWork(Frozen):
    """Work of one invocation for one run, counted, not estimated.

    Answers that a killed invocation paid for appear in the next invocation, as `n_turns_kept`.
    """

    run_id: str
    title: str
    setting: str
    model: str
    status: str
    n_episodes: int = Field(ge=0)
    """Number of episodes that the run has, or should have."""
    n_reused: int = Field(ge=0)
    """Number of episodes that were finished before this invocation."""
    reused_from: tuple[tuple[str, int], ...] = ()
    """Runs that paid for the reused episodes: (run, number of episodes), largest number first. The
    run itself is among them."""
    n_resumed: int = Field(default=0, ge=0)
    """Number of episodes that were resumed where an earlier attempt stopped."""
    n_turns_kept: int = Field(default=0, ge=0)
    """Number of stored answers from earlier attempts of resumed episodes. They are not requested
    again."""
    n_new: int = Field(default=0, ge=0)
    """Number of episodes that this invocation began at their first message."""
    model_calls: int = Field(default=0, ge=0)
    """Number of requests that reached an endpoint, including refused ones. For a killed worker,
    only requests with a stored answer count."""
    requests: RequestCounts | None = None
    """Counts of requests; None if unknown, because the invocation was killed or is of an older
    Parley."""
    input_tokens: int = 0
    """Input tokens of the answers of this invocation, as the endpoint counted them."""
    output_tokens: int = 0
    """Output tokens of the answers of this invocation, as the endpoint counted them."""
    n_unknown_tokens: int = Field(default=0, ge=0)
    """Number of answers whose tokens the endpoint did not count."""
    usd: float | None = None
    """Cost of the answers' tokens in USD; None if a price or a count is unknown, or if all models
    cost only by the hour."""
    usd_hourly: float | None = None
    """Cost in USD of the hours that model servers were ready for the run; None if hours or a price
    are unknown, or no server has a price."""
    programs_run: int = Field(default=0, ge=0)
    programs_reused: int = Field(default=0, ge=0)
    """Number of programs whose verdict was already stored for the same environment."""
    judgements_asked: int = Field(default=0, ge=0)
    """Number of judgements that a judge was asked for."""
    judgements_reused: int = Field(default=0, ge=0)
    """Number of judgements that were already stored for the same prompt and judge."""
    texts_embedded: int = Field(default=0, ge=0)
    """Number of texts sent to the embedder."""
    embeddings_reused: int = Field(default=0, ge=0)
    """Number of texts whose vector was already stored."""
    compared_with: str | None = None
    """Run that `why` compares with: this run's earlier state, or the latest run of this model and
    setting; None for the first run."""
    why: tuple[Difference, ...] = ()

    @property
    def n_paid(self) -> int:
        """Number of requests to models that were paid, or possibly paid.

        If only `model_calls` is known, it is the number of requests that reached an endpoint.
        """
        return (
            self.model_calls
            if self.requests is None
            else self.requests.paid - self.requests.embedder
        )

    @property
    def is_reused(self) -> bool:
        """True if the run was already finished as requested, so that nothing was done for it."""
        return self.compared_with == self.run_id and not self.why


class FailedRun(Frozen):
    """Run that an error stopped, or prevented from starting, in one night."""

    night_id: str
    run_id: str
    """Id of the run; empty if the run could not be planned, since it has no id then."""
    title: str
    setting: str
    model: str
    reason: str


class StageTime(Frozen):
    """Duration of one stage of a run in one night.

    Runs are played concurrently, so their stages overlap.
    """

    night_id: str
    run_id: str
    """Id of the run; empty for stages of the whole night."""
    title: str
    stage: str
    started_at: str
    seconds: float = Field(ge=0)

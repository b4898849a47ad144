"""What an invocation did for a run, what of it was paid for, and why it was not reused."""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen

Layer = Literal["dialogues", "tests", "judgements", "scores", "nothing"]


class Difference(Frozen):
    """One ingredient that differs, and the first layer that it makes anew; what is made from that layer follows it."""

    field: str
    """Dotted name: `subject.revision`, `environment`, `metrics.NAME`, `rows.DIALOG`, `files.TABLE`, ..."""
    before: str
    after: str
    reruns: Layer


class RunWork(Frozen):
    """Counted, not estimated. What an invocation that was killed had paid for is told by the next one, as kept turns."""

    run_id: str
    title: str
    setting: str
    model: str
    status: str
    n_episodes: int = Field(ge=0)
    """That the run has, or should have."""
    n_reused: int = Field(ge=0)
    """Finished before this invocation."""
    reused_from: tuple[tuple[str, int], ...] = ()
    """(run that paid, episodes), most first; the run itself among them."""
    n_resumed: int = Field(default=0, ge=0)
    """Taken up again where an earlier attempt stopped."""
    n_turns_kept: int = Field(default=0, ge=0)
    """Answers of those that were not asked for again."""
    n_new: int = Field(default=0, ge=0)
    """Played from their first message."""
    model_calls: int = Field(default=0, ge=0)
    input_tokens: int = 0
    output_tokens: int = 0
    """Of the answers that came in this invocation, as the endpoint counted them."""
    n_unknown_tokens: int = Field(default=0, ge=0)
    """Answers whose tokens the endpoint did not count."""
    usd: float | None = None
    """None where a price or a count is unknown."""
    programs_run: int = Field(default=0, ge=0)
    programs_reused: int = Field(default=0, ge=0)
    """Verdicts that stood already, for the same program in the same environment."""
    compared_with: str | None = None
    """What `why` compares with: the run as it stood before, or the latest of this model and setting; None for the first."""
    why: tuple[Difference, ...] = ()

    @property
    def is_reused(self) -> bool:
        """Whether all of it stood as it was wanted: nothing was done for it."""
        return self.compared_with == self.run_id and not self.why

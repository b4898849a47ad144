"""What a benchmark is called, in which ways it is played, and what a user may choose."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from schemas.dialog import HistoryPolicy
from schemas.errors import ConfigError, UnknownName
from schemas.run import Limits, Sampling

Options = Mapping[str, str]
"""Every option of the setting with its value."""


@dataclass(frozen=True)
class About:
    """What the benchmark is called."""

    name: str
    version: str
    """Part of every id: raise it when staging, cast or prompts of a setting change. A new setting, level or row is no change."""
    title: str
    paper: str


@dataclass(frozen=True)
class Option:
    """A choice the user makes by `--option name=value`."""

    name: str
    values: tuple[str, ...]
    default: str
    affects: Literal["episode", "scoring"]
    """`episode`: part of the episode's id. `scoring`: read by test_runs and score only, re-runs no dialogue."""
    help: str
    always_in_id: bool = False
    """Only for options older than this field. Ids leave out any other option at its default, so a setting may get new ones."""
    prompts: tuple[str, ...] = ()
    """Names of the setting's prompts that its cast uses only where the option is off its default. Ids leave them out else, so a
    setting may get new ones. For episode options."""
    pattern: str = ""
    """Regular expression of further values that it takes; empty where there are none."""
    pattern_shown: str = ""
    """The same as a person reads it: `first:N`."""
    new_runs: str = ""
    """Value in new runs of models that are asked, where the request names none; empty where it is the default. Runs of before
    have the default, and ids leave it out."""
    upstream: tuple[str, ...] = ()
    """Values that reproduce a published run. With one of them no option takes its `new_runs`."""

    def takes(self, value: str) -> bool:
        """Whether that is a value of it."""
        return value in self.values or bool(self.pattern and re.fullmatch(self.pattern, value))

    @property
    def choices(self) -> tuple[str, ...]:
        """All values, as a person reads them."""
        return (*self.values, self.pattern_shown) if self.pattern else self.values


def option_values(known: Sequence[Option], given: Mapping[str, str], owner: str) -> dict[str, str]:
    """Every option with its value.

    Args:
        owner: whose options they are, for messages.

    Raises:
        UnknownName: an option nobody knows.
        ConfigError: a value that the option does not take.
    """
    options = {option.name: option for option in known}
    for name, value in given.items():
        if name not in options:
            raise UnknownName(
                "option", name, options, "" if options else f"{owner} has no options", of=owner
            )
        if not options[name].takes(value):
            raise ConfigError(
                f"option {name}={value!r}: takes one of {', '.join(options[name].choices)}"
            )
    return {name: given.get(name, option.default) for name, option in options.items()}


@dataclass(frozen=True)
class Setting:
    """One way to play the benchmark."""

    name: str
    help: str
    options: tuple[Option, ...] = ()
    needs_simulator: bool = False
    """Whether a model speaks in the counterpart's seat. Its runs are then refused without `--simulator`."""
    plays_known_answers_alone: bool = False
    """Whether a control or a recording may be run without the simulator that `needs_simulator`, since nobody has to be asked."""
    history: HistoryPolicy = HistoryPolicy.ON_POLICY
    """How much of the past the subject sees. The dry run estimates prompts by it."""
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """name -> text of every prompt that its cast uses. They are part of its episodes' ids (see `Option.prompts` for those of a
    choice), and of no other setting's."""
    rubrics: tuple[str, ...] = ()
    """Names of the benchmark's rubrics that judge its dialogues. Its runs are then refused without a judge for each."""
    simulator_prompts: tuple[str, ...] = ()
    """Names of the prompts sent to the simulator in each round, for the same estimate."""
    simulator_calls: int = 1
    """Requests to the simulator for one of its messages, for estimates."""
    simulator_tokens: int | None = None
    """Most tokens of one message of the simulated user, by the paper or by this setting."""
    simulator_heeds_subject: bool = True
    """Whether a run's `max_tokens` bounds the simulated user's messages, too, where the run gives it no sampling of its own."""
    needs_embedder: bool = False
    """Whether its scores read vectors of texts. Its runs are then refused without `--embedder`."""
    embedder_in_play: bool = False
    """Whether a seat asks for vectors. The embedder is then needed, too, and part of its episodes' ids."""
    runs_programs: bool = True
    """False where nothing of it is run: its runs need no sandbox."""
    limits: Limits | None = None
    """Of its programs; None where the benchmark's are its own."""
    metrics: tuple[str, ...] = ()
    """Of its scores alone, after those that all settings may have: a metric that comes later renews no run of the others."""
    most_tokens: int | None = None
    """Of one answer; a run may ask for fewer. It holds for an agent's requests, too."""

    def simulated(self, own: Sampling | None, subject: Sampling) -> Sampling:
        """Return how the simulated user's tokens are drawn.

        Args:
            own: the sampling that a run states for it; its `max_tokens`, if any, takes the place of `simulator_tokens`.
            subject: the subject's. Without `own`, the simulated user is greedy.
        """
        if own is not None:
            return (
                own
                if own.max_tokens
                else own.model_copy(update={"max_tokens": self.simulator_tokens})
            )
        bounds = (
            self.simulator_tokens,
            subject.max_tokens if self.simulator_heeds_subject else None,
        )
        return Sampling(max_tokens=min((bound for bound in bounds if bound), default=None))

    def bounded(self, sampling: Sampling) -> Sampling:
        """The sampling with no more tokens than the setting allows."""
        if self.most_tokens is None:
            return sampling
        return sampling.model_copy(
            update={"max_tokens": min(self.most_tokens, sampling.max_tokens or self.most_tokens)}
        )

"""Identity, settings and options of a benchmark, and the participants of its dialogues."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.errors import ConfigError, UnknownName
from schemas.problem import Problem
from schemas.run import Limits, ModelIdentity, RunSpec, Sampling
from tasks.dialogue.agents.contract import MakeSubject
from tasks.dialogue.chat_subject import ChatSubject, ScriptedUser, partly_scripted
from tasks.dialogue.engine import Cast, Participant
from tasks.dialogue.tools import ProgramRunner, Workspaces
from tasks.language.chat_model import ChatModel

if TYPE_CHECKING:
    from tasks.language.embedding import TextVectors


Options = Mapping[str, str]
"""Value of every option of the setting, by name."""
MOST_STEPS = 100
"""Maximum steps of a participant before its message, unless a benchmark states another."""


@dataclass(frozen=True)
class About:
    """Name, version and paper of a benchmark."""

    name: str
    version: str
    """Part of every id.

    Increase it when staging, cast or prompts of a setting change, but not for a new setting, level
    or row.
    """
    title: str
    paper: str


@dataclass(frozen=True)
class Option:
    """Choice in a run, made with `--option name=value`."""

    name: str
    values: tuple[str, ...]
    default: str
    affects: Literal["episode", "scoring"]
    """`episode`: part of the episode's id.

    `scoring`: read only by test runs and scores, so that no dialogue is repeated.
    """
    help: str
    always_in_id: bool = False
    """True only for options older than this field.

    Other options at their default are left out of ids, so that settings can gain options.
    """
    prompts: tuple[str, ...] = ()
    """Names of the setting's prompts that are used only if the option is not at its default.

    Otherwise ids leave them out, so that settings can gain options. For episode options only.
    """
    pattern: str = ""
    """Regular expression of further values. Empty if there are none."""
    pattern_shown: str = ""
    """Readable form of `pattern`, such as `first:N`."""
    new_runs: str = ""
    """Value in new runs of models if the request sets none. Empty means the default.

    Earlier runs have the default, which ids leave out.
    """
    upstream: tuple[str, ...] = ()
    """Values that reproduce a published run. With one of them, no option uses its `new_runs`."""

    def takes(self, value: str) -> bool:
        """Return True if the option accepts a value."""
        return value in self.values or bool(self.pattern and re.fullmatch(self.pattern, value))

    @property
    def choices(self) -> tuple[str, ...]:
        """Return all values in readable form."""
        return (*self.values, self.pattern_shown) if self.pattern else self.values


def option_values(
    declared: Sequence[Option], values: Mapping[str, str], owner: str
) -> dict[str, str]:
    """Return the value of every option.

    Args:
        declared: Options of the setting.
        values: Values set by `--option`, by name.
        owner: Name of the setting in error messages.

    Raises:
        UnknownName: The setting has no such option.
        ConfigError: An option does not accept its value.
    """
    options = {option.name: option for option in declared}
    for name, value in values.items():
        if name not in options:
            raise UnknownName(
                "option", name, options, "" if options else f"{owner} has no options", of=owner
            )
        if not options[name].takes(value):
            raise ConfigError(
                f"option {name}={value!r}: must be one of {', '.join(options[name].choices)}"
            )
    return {name: values.get(name, option.default) for name, option in options.items()}


RoleOfModel = tuple[str, str, ModelIdentity, Sampling]
"""Role, rubric (empty if the role is no judge), model and sampling."""


@dataclass(frozen=True)
class Setting:
    """One way to run the benchmark."""

    name: str
    help: str
    options: tuple[Option, ...] = ()
    needs_simulator: bool = False
    """True if a model plays the user. Runs without `--simulator` are then refused."""
    plays_known_answers_alone: bool = False
    """True if a control or recording may run without the simulator, since it sends no request."""
    history: HistoryPolicy = HistoryPolicy.ON_POLICY
    """Part of the past that the subject sees. The dry run estimates prompts from it."""
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text of every prompt of the cast, by name.

    The ids of this setting's episodes cover them (see `Option.prompts` for those of an option).
    """
    rubrics: tuple[str, ...] = ()
    """Names of the rubrics that judge the dialogues. Runs without a judge for each are refused."""
    simulator_prompts: tuple[str, ...] = ()
    """Names of the prompts sent to the simulator in each round, for estimates."""
    simulator_calls: int = 1
    """Requests to the simulator per message of the simulated user, for estimates."""
    simulator_tokens: int | None = None
    """Maximum tokens of one simulated user message, according to the paper or this setting."""
    simulator_heeds_subject: bool = True
    """True if a run's `max_tokens` also limits a simulated user without its own sampling."""
    needs_embedder: bool = False
    """True if scores read vectors of texts. Runs without `--embedder` are then refused."""
    embedder_in_play: bool = False
    """True if a participant requests vectors.

    The embedder is then required and part of episode ids.
    """
    runs_programs: bool = True
    """False if the setting runs no programs. Its runs then need no sandbox."""
    limits: Limits | None = None
    """Limits of the setting's programs. None means the benchmark's limits."""
    metrics: tuple[str, ...] = ()
    """Extra metrics of this setting, listed after the common ones.

    Adding one does not invalidate runs of other settings.
    """
    most_tokens: int | None = None
    """Maximum tokens of one answer, including an agent's requests. A run may set a lower limit."""

    def simulated(self, own: Sampling | None, subject: Sampling) -> Sampling:
        """Return the sampling of the simulated user.

        Args:
            own: Sampling that the run sets for the simulated user. Without `max_tokens`, it gets
                `simulator_tokens`.
            subject: Sampling of the subject. Without `own`, the simulated user is greedy.
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

    def roles_of_models(self, spec: RunSpec) -> list[RoleOfModel]:
        """Return the roles that models play in a run, with their samplings within all bounds."""
        subject = self.bounded(spec.sampling)
        roles: list[RoleOfModel] = [("subject", "", spec.subject, subject)]
        if spec.simulator is not None:
            simulated = self.simulated(spec.simulator_sampling, subject)
            roles.append(("simulator", "", spec.simulator, simulated))
        return roles + [
            ("judge", judge.rubric, judge.judge, judge.sampling) for judge in spec.judges
        ]

    def bounded(self, sampling: Sampling) -> Sampling:
        """Return the sampling with `max_tokens` reduced to the setting's limit."""
        if self.most_tokens is None:
            return sampling
        return sampling.model_copy(
            update={"max_tokens": min(self.most_tokens, sampling.max_tokens or self.most_tokens)}
        )


@dataclass(frozen=True)
class CastRequest:
    """Inputs for the cast of a dialogue.

    A participant receives only the arguments of its constructor.
    """

    setting: str
    options: Options
    """Options that affect episodes."""
    problem: Problem
    dialog: Dialog
    subject: ChatModel
    simulator: ChatModel | None
    sampling: Sampling
    programs: ProgramRunner
    embedder: "TextVectors | None" = None
    """Embedder, if the setting has `embedder_in_play`."""
    workspaces: Workspaces | None = None
    """Workspaces for agents. Always set in a run."""
    simulator_sampling: Sampling | None = None
    """Sampling of the simulated user set by the run. None means `Setting.simulated`."""
    make_subject: MakeSubject | None = None
    """Constructor of the run's agent. None without an agent."""

    def subject_participant(self, history: HistoryPolicy = HistoryPolicy.ON_POLICY) -> Participant:
        """Return the run's agent or chat model. Scripted answers of the dialog take precedence."""
        participant = (
            self.make_subject(history)
            if self.make_subject
            else ChatSubject(self.subject, self.sampling, history)
        )
        return partly_scripted(participant, self.dialog)

    @property
    def user_model(self) -> ChatModel:
        """Return the model that plays the user. Raise ConfigError if the run has none."""
        if self.simulator is None:
            raise ConfigError(
                f"setting {self.problem.benchmark}.{self.setting} has a simulated user. Name the"
                " user's model with `--simulator SPEC`"
            )
        return self.simulator


MakeCast = Callable[[CastRequest], Cast]
"""Function that returns the participants of a dialogue."""
GoldAnswer = Callable[[Problem, int], str | None]
"""Function that returns the answer of `control:gold` in a round (1-based). None: no reference."""
UserTexts = Callable[[Dialog, Options], Sequence[str]]
"""Function that returns the text of each user message, as far as the dialog determines it."""
HistoryOf = Callable[[Dialog, Options], HistoryPolicy | None]
"""Function that returns the part of the past that the subject sees. None: the setting's history."""


def own_texts(dialog: Dialog, options: Options) -> Sequence[str]:
    """Return the texts of the dialog's user messages."""
    return tuple(turn.content or "" for turn in dialog.turns if turn.role is Role.USER)


def scripted_chat(request: CastRequest) -> Cast:
    """Return a cast of the dialog's scripted user and a subject that sees the whole dialogue."""
    return scripted_cast(request.subject_participant(), own_texts(request.dialog, request.options))


def scripted_cast(subject: Participant, texts: Sequence[str], max_steps: int = MOST_STEPS) -> Cast:
    """Return a cast of a subject and a user who sends these texts.

    Args:
        subject: Participant under test.
        texts: Messages of the user, in order.
        max_steps: Maximum steps of the subject before a message.
    """
    # One more turn than texts, so that the user ends the dialogue and not the limit.
    return Cast(subject, ScriptedUser(tuple(texts)), len(texts) + 1, max_steps)


def fenced_reference(problem: Problem, turn: int) -> str | None:
    """Return the reference code in a Python block, equal in each round. None without one."""
    return f"```python\n{problem.reference_code}\n```" if problem.reference_code else None


@dataclass(frozen=True)
class Play:
    """Functions that return a dialogue's participants, reference answers and user texts."""

    cast: MakeCast = scripted_chat
    gold_answer: GoldAnswer = fenced_reference
    user_texts: UserTexts = own_texts
    """Texts of the user, from which the dry run estimates prompt lengths."""
    history: HistoryOf = lambda dialog, options: None
    """History that a dialogue or an option determines, from which the dry run estimates prompts."""

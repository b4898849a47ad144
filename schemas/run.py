"""Runs: models, endpoints, sampling and RunSpec, and their ids (docs/explanation/ids.md).

Each id contains only values that can change its layer. `run_id` leaves out limits of size,
addresses and parallelism, so a run can grow, move and resume. `episode_id` leaves out values that
only scoring reads, so a new way of scoring repeats no dialogue.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NewType

from pydantic import Field

from schemas.audit import AuditMode
from schemas.base import Frozen, added_later
from schemas.content_id import content_id, content_ids

TokenLimitName = Literal["max_tokens", "max_completion_tokens"]
MessageForm = Literal["native", "merged", "auto"]


class EndpointProfile(Frozen):
    """Form of one model's requests.

    Parley starts with the plain protocol, or with the profile that the user names, and learns the
    rest from the endpoint's refusals.
    """

    refused: tuple[str, ...] = ()
    """Parameters that the endpoint refused, sorted. Parley does not send them."""
    token_limit_name: TokenLimitName = "max_tokens"
    takes_schema: bool = True
    """True if the endpoint accepts the JSON schema of an answer."""
    takes_tools: bool = True
    """True if the endpoint accepts tools in the protocol's own fields. If False, the messages
    describe the tools."""
    messages: MessageForm = "auto"
    """`merged`: Parley joins the system text to the first user message, joins consecutive messages
    of one role and leaves out empty answers. `native`: the messages stay as the benchmark writes
    them. `auto`: native until the endpoint refuses such messages."""
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    """Fields of a message that may hold the model's thoughts. The first one with text counts."""
    reasoning_tags: str = "auto"
    """Tags around thoughts in an answer's text, used if the user names none (see
    `Sampling.reasoning_tags`)."""
    returns_reasoning: bool = added_later(False)
    """True if the endpoint wants an assistant's earlier thoughts back in requests with tools."""
    thoughts: tuple[str, ...] = ()
    """Places where thoughts were found, sorted: names of fields, `content` for a list of parts,
    `tags` for tags in the text."""

    def without(self, parameter: str) -> "EndpointProfile":
        """Return the profile with one more refused parameter."""
        return self.model_copy(update={"refused": tuple(sorted({*self.refused, parameter}))})

    def thinking(self, *places: str) -> "EndpointProfile":
        """Return a copy of the profile with more response fields that contain reasoning text."""
        return self.model_copy(
            update={"thoughts": tuple(sorted({*self.thoughts, *filter(None, places)}))}
        )

    def joined(self, other: "EndpointProfile") -> "EndpointProfile":
        """Merge two profiles of one endpoint, which two processes refined from the same profile."""
        update: dict[str, object] = {
            "refused": tuple(sorted({*self.refused, *other.refused})),
            "takes_schema": self.takes_schema and other.takes_schema,
            "takes_tools": self.takes_tools and other.takes_tools,
            "returns_reasoning": self.returns_reasoning or other.returns_reasoning,
        }
        if other.token_limit_name != "max_tokens":
            update["token_limit_name"] = other.token_limit_name
        if other.messages == "merged":
            update["messages"] = other.messages
        return self.model_copy(update=update).thinking(*other.thoughts)

    @property
    def adaptations(self) -> tuple[str, ...]:
        """Differences that the profile makes to requests, as the tables show them."""
        without = tuple(f"without {name}" for name in self.refused)
        merged = ("merged messages",) if self.messages == "merged" else ()
        return (*without, *merged, *(("reasoning sent back",) if self.returns_reasoning else ()))


Float32 = NewType("Float32", float)
"""Number stored in four bytes."""


class EmbedderIdentity(Frozen):
    """Properties of an embedder that can change its vectors.

    Its address and key are in ModelEndpoint.
    """

    provider: Literal["embedded", "openai"]
    """`embedded`: FlagEmbedding in a process that Parley starts. `openai`: an endpoint."""
    name: str
    revision: str = ""
    """Revision that the user states, or `unpinned-<UTC date>` if an endpoint's weights cannot be
    known. For a local embedder, the engine's version."""
    weights_digest: str = ""
    pooling: Literal["mean", "cls", "endpoint"] = "endpoint"
    """Method that combines the vectors of a text's tokens into one."""
    normalised: bool = True
    """True if every vector has length 1."""
    max_length: int | None = Field(default=None, ge=1)
    """Number of tokens of a text that are embedded; further tokens are cut off. None if the
    endpoint decides, or refuses a longer text."""
    request: tuple[tuple[str, str], ...] = added_later(())
    """Further fields of an endpoint's request: (name, canonical JSON), sorted, such as
    `("dimensions", "256")`."""

    @property
    def is_hosted(self) -> bool:
        """True if an endpoint serves the embedder."""
        return self.provider == "openai"

    @property
    def label(self) -> str:
        """Name of the embedder in tables and messages, such as `embedded:minilm`."""
        return f"{self.provider}:{self.name}"

    @property
    def digest(self) -> str:
        """Id of the embedder beside its stored vectors: 32 hex digits."""
        return content_id(self)


class Embedding(Frozen):
    """Vector of one text by one embedder. The two digests are its id."""

    embedder: str
    """Digest of the EmbedderIdentity."""
    text_digest: str
    vector: tuple[Float32, ...]


class ModelIdentity(Frozen):
    """Properties of a model that can change its answers.

    Its address and key are in ModelEndpoint.
    """

    provider: str
    """Kind of model: the first part of its spec (see `tasks.language.providers`)."""
    name: str
    revision: str = ""
    """Revision that the user states, or `unpinned-<UTC date>` if an endpoint's weights cannot be
    known. For a local model, the engine's version."""
    weights_digest: str = ""
    """Digest of the weights file, or of the recording."""
    chat_template: str = ""
    """Digest of a chat template that the user sets; empty for the model's own."""
    serving: tuple[tuple[str, str], ...] = added_later(())
    """Options of the model server that Parley starts, sorted by name: those that can change an
    answer (dtype, ...)."""
    messages: MessageForm = added_later("auto")
    """Form of the messages in the model's requests: the user's choice, or `auto`."""
    profile: str = added_later("")
    """Name and digest of the endpoint's profile, if the user names one."""

    @property
    def label(self) -> str:
        """Name of the model in tables and folders, such as `openai:gpt-5`."""
        return f"{self.provider}:{self.name}"


class ModelEndpoint(Frozen):
    """Address of a model.

    It is never part of an id, and names the variable that holds the key, never the key.
    """

    base_url: str | None = None
    key_env: str | None = None
    ca_file: str | None = None
    """PEM file of certificate authorities to trust beside the default ones."""
    headers: tuple[tuple[str, str], ...] = ()
    """Extra headers of each request: (name, environment variable that holds the value)."""
    query: tuple[tuple[str, str], ...] = ()
    """Query parameters of each request: (name, value), such as Azure's `api-version`."""
    system_text: str = ""
    """User's own system text, placed before the benchmark's. Ids contain its digest
    (`Sampling.system_prompt`)."""
    path: str | None = None
    """Path of a recording or of weights on disk."""
    served_name: str | None = None
    """Name under which Parley's own server serves the model. None: `ModelIdentity.name`."""
    replicas: tuple[str, ...] = ()
    """Base URLs of all servers of the model, if there are several. `base_url` is the first one."""
    batches: str | None = None
    """Folder that stores which batches are in flight; None unless requests go to the endpoint's
    batch API."""


class Sampling(Frozen):
    """Sampling of a role's tokens. The default is greedy (CodeIF-Bench section 4.2)."""

    temperature: float | None = Field(default=0.0, ge=0)
    """Sampling temperature. None: no temperature is sent, so the endpoint's default applies."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: tuple[str, ...] = ()
    omit_reasoning: bool = True
    """Leave thoughts out of the answer that tests and later turns see."""
    tools_as_text: bool = added_later(False)
    """Describe and call tools in the text of messages, even if the endpoint has its own format for
    them."""
    reasoning_tags: str = added_later("auto")
    """Tags around a thought in an answer's text: `auto` for all that Parley knows, `none`, or names
    separated by commas."""
    request: tuple[tuple[str, str], ...] = added_later(())
    """Further fields of the request's body: (name, canonical JSON), sorted, such as
    `("reasoning_effort", '"low"')`."""
    system_prompt: str = added_later("")
    """Digest of the configured system prompt (`ModelEndpoint.system_text`); empty without one."""


class Limits(Frozen):
    """Bounds of one sandboxed program."""

    cpu_s: float = Field(default=3.0, gt=0)
    wall_s: float = Field(default=20.0, gt=0)
    memory_mb: int = Field(default=1024, ge=16)
    """Address space of one process; with a writable memory cgroup, also the memory of the whole
    run."""
    processes: int = Field(default=32, ge=1)
    file_mb: int = Field(default=32, ge=1)
    tmp_mb: int = Field(default=64, ge=1)
    open_files: int = Field(default=128, ge=16)
    output_kb: int = Field(default=64, ge=1)
    """Maximum of stdout and of stderr in KiB, each. Further output is discarded, not held in
    memory."""

    @property
    def address_space_mb(self) -> int:
        """Bound of one process's address space."""
        return self.memory_mb


class RuntimeLimits(Limits):
    """Bounds of a program whose runtime (a JVM, V8) reserves far more address space than it uses.

    The memory cgroup bounds its memory if one is writable. Otherwise only the runtime's own options
    do.
    """

    reserved_mb: int = Field(default=8192, ge=0)
    """Address space beside `memory_mb`."""

    @property
    def address_space_mb(self) -> int:
        """Bound of one process's address space, the reserved part included."""
        return self.memory_mb + self.reserved_mb


class AgentIdentity(Frozen):
    """Agent that acts as the subject instead of a bare chat model.

    The fields are the properties that can change its messages.
    """

    name: str
    version: str
    options: tuple[tuple[str, str], ...] = ()
    """Options, sorted by name."""
    prompts: tuple[tuple[str, str], ...] = ()
    """Prompt texts of the agent: (name, digest)."""


class RubricJudge(Frozen):
    """Model and sampling that judge by a rubric."""

    rubric: str
    version: str
    prompt: str
    """Digest of the rubric's prompt text and answer schema."""
    judge: ModelIdentity
    sampling: Sampling = Sampling()


class RunSpec(Frozen):
    """One evaluation: a model on a setting of a benchmark's dataset version."""

    benchmark: str
    benchmark_version: str
    """Version of the benchmark's own code in Parley (its staging, cast and prompts)."""
    setting: str
    dataset_version: str
    dataset_digest: str
    """Digest of all staged rows, so that edited data makes another run."""
    episode_options: tuple[tuple[str, str], ...] = ()
    """Options that can change the dialogue, sorted by name."""
    scoring_options: tuple[tuple[str, str], ...] = ()
    """Options that only scoring reads, sorted by name."""
    subject: ModelIdentity
    simulator: ModelIdentity | None = None
    judge: ModelIdentity | None = None
    """Judge of runs that are older than the field `judges`."""
    sampling: Sampling = Sampling()
    prompts: tuple[tuple[str, str], ...] = ()
    """Prompt texts and personas of the cast: (name, digest)."""
    samples: int = Field(default=1, ge=1)
    seed: int = 0
    sandbox: str = "zygote"
    limits: Limits = Limits()
    runner_version: int = 1
    agent: AgentIdentity | None = added_later(None)
    judges: tuple[RubricJudge, ...] = added_later(())
    """Judges, sorted by rubric. No episode id contains them."""
    embedder: EmbedderIdentity | None = added_later(None)
    """Embedder whose vectors scores or participants read."""
    embedder_in_play: EmbedderIdentity | None = added_later(None)
    """Equal to `embedder` if participants read its vectors, which can then change the dialogue;
    otherwise None."""
    audit: AuditMode = added_later("sample")
    """Passes to audit. No episode id contains it."""
    refused: Literal["failed", "unscored"] = added_later("failed")
    """Result of the tests if the prompt was refused and there is no answer."""
    simulator_sampling: Sampling | None = added_later(None)
    """Sampling of the simulated user; None for the setting's own (`Setting.simulated`)."""

    templates: tuple[tuple[str, str], ...] = added_later(())
    """User's own templates of questions and judge prompts: (name, digest), sorted by name. No
    episode id contains them: questions are in their dialogs' digests, and judge prompts change no
    dialogue."""

    @property
    def run_id(self) -> str:
        """Id made from the spec's fields: 32 hex digits.

        A field declared by `added_later` is left out while it has its default.
        """
        return content_id(self)

    @property
    def label(self) -> str:
        """Name of the model under test in tables and folders.

        It includes the agent's name: `openai:gpt-5+chain_of_thought`.
        """
        return (
            self.subject.label if self.agent is None else f"{self.subject.label}+{self.agent.name}"
        )

    @property
    def full_setting(self) -> str:
        """`BENCHMARK.SETTING`, as the command line takes it."""
        return f"{self.benchmark}.{self.setting}"

    def episode_ingredients(self, row_digest: str, sample: int) -> dict[str, object]:
        """Return every value that can change an episode, by name.

        `why-rerun` compares them by field.
        """
        later = {
            "agent": self.agent,
            "embedder": self.embedder_in_play,
            "simulator_sampling": self.simulator_sampling,
        }
        return {
            "benchmark": self.benchmark,
            "benchmark_version": self.benchmark_version,
            "dataset_version": self.dataset_version,
            "row_digest": row_digest,
            "setting": self.setting,
            "options": self.episode_options,
            "subject": self.subject,
            "simulator": self.simulator,
            "sampling": self.sampling,
            "prompts": self.prompts,
            "sample": sample,
            "seed": self.seed + sample,
            **{name: value for name, value in later.items() if value is not None},
        }

    def episode_id(self, row_digest: str, sample: int) -> str:
        """Return the id of one sample (0 and up) of the dialog with this digest: 32 hex digits."""
        return content_id(self.episode_ingredients(row_digest, sample))

    def episode_ids(self, row_digests: Iterable[str], sample: int) -> Iterator[str]:
        """Yield the `episode_id` of one sample of each dialog."""
        return content_ids(
            lambda row_digest: self.episode_ingredients(row_digest, sample), row_digests
        )


def judgement_id(*, prompt: str, judge: ModelIdentity, sampling: Sampling) -> str:
    """Return the id of a judgement, made from the rubric's rendered prompt, judge and sampling."""
    return content_id({"prompt": prompt, "judge": judge, "sampling": sampling})

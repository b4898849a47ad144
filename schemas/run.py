"""Runs: models, sampling and RunSpec, and the ids made of them (DESIGN: identity).

Each id names only what can change its layer. `run_id` leaves out limits of size, addresses and parallelism, so that a run may be
grown, moved and resumed; `episode_id` leaves out what only scoring reads, so that a new way of scoring re-runs no dialogue.
"""

from typing import Literal

from pydantic import Field

from schemas.audit import AuditMode
from schemas.base import Frozen, added_later
from schemas.content_id import content_id
from schemas.embedding import EmbedderIdentity
from schemas.endpoint_profile import EndpointProfile, MessageForm


class ModelIdentity(Frozen):
    """Every property that can change a model's answers. Its address and key are in ModelEndpoint."""

    provider: str
    """Kind of model, as its spec begins; see `tasks.language.providers`."""
    name: str
    revision: str = ""
    """Stated by the user, or `unpinned-<UTC date>` where an endpoint's weights cannot be known; engine version for local ones."""
    weights_digest: str = ""
    """Digest of the weights file, or of the recording."""
    chat_template: str = ""
    """Digest of a chat template that the user sets; empty for the model's own."""
    serving: tuple[tuple[str, str], ...] = added_later(())
    """How Parley's own server of it was told to compute, where that can change an answer (dtype, ...); sorted by name."""
    messages: MessageForm = added_later("auto")
    """Form of the messages that it is asked by, where the user names one."""
    profile: str = added_later("")
    """Name and digest of the endpoint's profile, where the user names one."""

    @property
    def label(self) -> str:
        """The model's name in tables and folders, for example `openai:gpt-5`."""
        return f"{self.provider}:{self.name}"


class ModelEndpoint(Frozen):
    """Where a model is reached. Never part of an id. Names the variable that holds the key, never the key."""

    base_url: str | None = None
    key_env: str | None = None
    ca_file: str | None = None
    """PEM file of authorities to trust beside the usual ones."""
    headers: tuple[tuple[str, str], ...] = ()
    """(name, variable that holds the value) of the headers that each request has beside the usual ones."""
    query: tuple[tuple[str, str], ...] = ()
    """(name, value) of the parameters behind the path of each request, such as Azure's `api-version`."""
    system_text: str = ""
    """The user's own system text, before that of the benchmark. Ids hold its digest: `Sampling.system_prompt`."""
    path: str | None = None
    """Recording or weights on disk."""
    served_name: str | None = None
    """The name that a server of our own gives the model; without it the identity's."""
    replicas: tuple[str, ...] = ()
    """Base URLs of all servers of the model, where there are several; `base_url` is the first of them."""
    profile: EndpointProfile | None = None
    """Form of its requests to begin with; None for the protocol's own form."""
    batches: str | None = None
    """Folder that keeps what batches are under way, where requests go to the endpoint's batches; None where they do not."""


class Sampling(Frozen):
    """How the subject's tokens are drawn. The default is greedy (CodeIF-Bench section 4.2)."""

    temperature: float | None = Field(default=0.0, ge=0)
    """None leaves it to the endpoint: no temperature is sent."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: tuple[str, ...] = ()
    omit_reasoning: bool = True
    """Leave thoughts out of the answer that tests and later turns see."""
    tools_as_text: bool = added_later(False)
    """Tell of tools, and call them, within the messages' text, even where the endpoint has a format of its own for them."""
    reasoning_tags: str = added_later("auto")
    """Marks of a thought in an answer's text: `auto` for all that Parley knows, `none`, or names separated by commas."""
    request: tuple[tuple[str, str], ...] = added_later(())
    """(name, canonical JSON) of further fields of the request's body, sorted: `("reasoning_effort", '"low"')`."""
    system_prompt: str = added_later("")
    """Digest of the user's own system text; empty without one. `ModelEndpoint.system_text` is the text."""


class Limits(Frozen):
    """Bounds of one sandboxed program."""

    cpu_s: float = Field(default=3.0, gt=0)
    wall_s: float = Field(default=20.0, gt=0)
    memory_mb: int = Field(default=1024, ge=16)
    """Address space of one process, and where a memory cgroup is writable the whole run's memory."""
    processes: int = Field(default=32, ge=1)
    file_mb: int = Field(default=32, ge=1)
    tmp_mb: int = Field(default=64, ge=1)
    open_files: int = Field(default=128, ge=16)
    output_kb: int = Field(default=64, ge=1)
    """Bound of stdout and of stderr. Output beyond it is cut away, not kept in memory."""

    @property
    def address_space_mb(self) -> int:
        """Bound of one process's address space."""
        return self.memory_mb


class RuntimeLimits(Limits):
    """Bounds of a program whose runtime (a JVM, V8) reserves far more address space than it uses.

    Its memory is bounded by the memory cgroup, where one is writable; elsewhere by the runtime's own options alone.
    """

    reserved_mb: int = Field(default=8192, ge=0)
    """Address space beside `memory_mb`."""

    @property
    def address_space_mb(self) -> int:
        """Bound of one process's address space, the reserved part included."""
        return self.memory_mb + self.reserved_mb


class AgentIdentity(Frozen):
    """What sits in the subject's seat besides a bare chat model: every property that can change what it says."""

    name: str
    version: str
    options: tuple[tuple[str, str], ...] = ()
    """Sorted by name."""
    prompts: tuple[tuple[str, str], ...] = ()
    """(name, digest) of its prompt texts."""


class RubricJudge(Frozen):
    """Who judges by a rubric, and how."""

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
    """Digest over all staged rows, so that edited data makes another run."""
    episode_options: tuple[tuple[str, str], ...] = ()
    """Options that can change what is said, sorted by name."""
    scoring_options: tuple[tuple[str, str], ...] = ()
    """Options that only scoring reads, sorted by name."""
    subject: ModelIdentity
    simulator: ModelIdentity | None = None
    judge: ModelIdentity | None = None
    """Of runs older than `judges`."""
    sampling: Sampling = Sampling()
    prompts: tuple[tuple[str, str], ...] = ()
    """(name, digest) of every prompt text and persona of the cast."""
    samples: int = Field(default=1, ge=1)
    seed: int = 0
    sandbox: str = "zygote"
    limits: Limits = Limits()
    runner_version: int = 1
    agent: AgentIdentity | None = added_later(None)
    judges: tuple[RubricJudge, ...] = added_later(())
    """Sorted by rubric. In no episode's id."""
    embedder: EmbedderIdentity | None = added_later(None)
    """Makes the vectors that scores or seats read."""
    embedder_in_play: EmbedderIdentity | None = added_later(None)
    """The same where seats ask it: it can then change what is said."""
    audit: AuditMode = added_later("sample")
    """Passes that are audited. In no episode's id."""
    refused: Literal["failed", "unscored"] = added_later("failed")
    """What the tests of an answer count as, where the prompt was refused."""
    simulator_sampling: Sampling | None = added_later(None)
    """How the simulated user's tokens are drawn; None for the setting's own way (`Setting.simulated`)."""

    templates: tuple[tuple[str, str], ...] = added_later(())
    """(name, digest) of the user's own texts of questions and judge prompts, sorted by name. In no episode's id: questions are in
    their dialogs' digests, and judge prompts change no dialogue."""

    @property
    def run_id(self) -> str:
        """Id made of the spec's fields: 32 hex digits. A field that was added later is left out at its default."""
        return content_id(self)

    @property
    def label(self) -> str:
        """The name of the model under test in tables and folders, its agent's included: `openai:gpt-5+chain_of_thought`."""
        return (
            self.subject.label if self.agent is None else f"{self.subject.label}+{self.agent.name}"
        )

    @property
    def full_setting(self) -> str:
        """`BENCHMARK.SETTING`, as the command line takes it."""
        return f"{self.benchmark}.{self.setting}"

    def episode_ingredients(self, row_digest: str, sample: int) -> dict[str, object]:
        """Every value that can change an episode, by name; `why-rerun` compares them field by field."""
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
        """Id of one sample (0 and up) of the dialog with this row digest: 32 hex digits."""
        return content_id(self.episode_ingredients(row_digest, sample))


def judgement_id(*, prompt: str, judge: ModelIdentity, sampling: Sampling) -> str:
    """Id of one judgement: the rendered rubric prompt and who judges it, how."""
    return content_id({"prompt": prompt, "judge": judge, "sampling": sampling})

"""Keys of a role: the fields of a model that a command, a night's file and the documentation name. One definition serves all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["subject", "simulator", "judge", "embedder"]
Form = Literal[
    "TEXT",
    "FILE",
    "NUMBER",
    "NUMBER|default",
    "INTEGER",
    "true|false",
    "native|merged|auto",
    "NAME=VALUE",
    "NAME=JSON",
    "NAME=ENV_VARIABLE",
]
Subject = Literal["endpoint", "answers", "agent", "server", "comparison"]
ROLES: tuple[Role, ...] = ("subject", "simulator", "judge", "embedder")
TALKERS: tuple[Role, ...] = ("subject", "simulator", "judge")
SUBJECT: tuple[Role, ...] = ("subject",)


@dataclass(frozen=True)
class RoleKey:
    """One field of a ModelRequest, as users set it."""

    name: str
    """The field's name: the key of `SPEC,KEY=VALUE` and of a night's file."""
    form: Form
    """Form of its value. A form with `=` maps names to values; such a key is written `KEY.NAME=VALUE` in `SPEC,KEY=VALUE`."""
    help: str
    """Help in one line, for the command and the documentation."""
    roles: tuple[Role, ...] = ROLES
    """Roles that heed it."""
    flag: str | None = ""
    """Name of its flag without dashes; empty for the key's own name, None where no flag of its own sets it."""
    flag_value: str = "true"
    """Value that a flag without an argument stands for."""
    has_opposite: bool = False
    """Whether `--no-FLAG` sets it to the other value."""
    is_list: bool = False
    """Whether it may be given several times."""
    subject: Subject = "endpoint"
    """What it is about, by which the command's help groups it."""

    @property
    def is_map(self) -> bool:
        """Whether its value maps names to values."""
        return "=" in self.form

    def option(self, role: Role) -> str:
        """Return the flag of one role, for example `--simulator-max-tokens`; the subject's has no prefix."""
        name = (self.flag or self.name).replace("_", "-")
        return f"--{name}" if role == "subject" else f"--{role}-{name}"

    def opposite(self, role: Role) -> str:
        """Return the flag that sets it to the other value."""
        return f"--no-{self.option(role).removeprefix('--')}"

    def parameter(self, role: Role) -> str:
        """Return the name of that flag's parameter."""
        return f"{role}_{self.name}"


ROLE_KEYS: tuple[RoleKey, ...] = (
    RoleKey("key_env", "TEXT", "Name of the variable that holds the endpoint's key."),
    RoleKey(
        "headers",
        "NAME=ENV_VARIABLE",
        "Header of each request; its value is read from the variable.",
        flag="header",
    ),
    RoleKey(
        "ca_file",
        "FILE",
        "PEM file of authorities that the endpoint's certificate may be of, too.",
        flag=None,
    ),
    RoleKey(
        "revision",
        "TEXT",
        "Name of the weights behind the endpoint; else each day (UTC) begins a new run.",
    ),
    RoleKey(
        "name", "TEXT", "Name in tables, of weights or a recording on disk.", TALKERS, flag=None
    ),
    RoleKey(
        "temperature",
        "NUMBER|default",
        "Sampling temperature; 0 is greedy (the default), `default` sends none.",
        TALKERS,
        subject="answers",
    ),
    RoleKey(
        "top_p",
        "NUMBER",
        "Nucleus sampling: the smallest set of tokens whose probabilities sum to this value.",
        TALKERS,
        subject="answers",
    ),
    RoleKey(
        "max_tokens",
        "INTEGER",
        "Most tokens of one answer. Thoughts count, too: a thinking model needs more.",
        TALKERS,
        subject="answers",
    ),
    RoleKey(
        "stop",
        "TEXT",
        "Text that ends an answer; may be repeated.",
        TALKERS,
        is_list=True,
        subject="answers",
    ),
    RoleKey(
        "request",
        "NAME=JSON",
        "Further field of each request's body, such as top_k=20; part of the run's id.",
    ),
    RoleKey(
        "messages",
        "native|merged|auto",
        "Form of the messages: as written, without a system role and two of one role in a row, or as the endpoint takes them.",
        TALKERS,
        subject="answers",
    ),
    RoleKey(
        "profile",
        "TEXT",
        "Profile to begin with: openai-reasoning, vllm, mistral, anthropic-compatible, or a YAML file. Default: find it out.",
        TALKERS,
        subject="answers",
    ),
    RoleKey(
        "system_prompt",
        "FILE",
        "Text to put before the benchmark's own system text; part of the run's id.",
        TALKERS,
        subject="answers",
    ),
    RoleKey(
        "reasoning_tags",
        "TEXT",
        "Marks of thoughts in an answer's text: auto, none, or think,mistral,channel,...",
        TALKERS,
        subject="answers",
    ),
    RoleKey(
        "omit_reasoning",
        "true|false",
        "Keep the model's thoughts in the text of its answers (`omit_reasoning: false`).",
        TALKERS,
        flag="keep_reasoning",
        flag_value="false",
        subject="answers",
    ),
    RoleKey(
        "tools_as_text",
        "true|false",
        "Tell the model of an agent's tools within its messages.",
        SUBJECT,
        subject="agent",
    ),
    RoleKey(
        "agent",
        "TEXT",
        "Agent that asks the model, in its seat; all: `parley list agents`.",
        SUBJECT,
        subject="agent",
    ),
    RoleKey(
        "agent_options",
        "NAME=VALUE",
        "An option of the agent; may be repeated.",
        SUBJECT,
        flag="agent_option",
        subject="agent",
    ),
    RoleKey(
        "check_served_model",
        "true|false",
        "Refuse answers of another model than the one asked for (the default).",
        ("subject", "judge", "embedder"),
        has_opposite=True,
    ),
    RoleKey(
        "batch",
        "true|false",
        "Ask in batches: half the price, up to a day. For settings of one round, and judges.",
        ("subject", "judge"),
    ),
    RoleKey(
        "timeout_s",
        "NUMBER",
        "Time limit of one answer, in seconds.",
        ("subject", "judge", "embedder"),
    ),
    RoleKey(
        "patience_s",
        "NUMBER",
        "Seconds to wait for an endpoint that stopped answering.",
        ("subject", "judge", "embedder"),
    ),
    RoleKey(
        "concurrency",
        "INTEGER",
        "Requests in flight to its endpoint; else the run's --concurrency.",
        flag=None,
    ),
    RoleKey(
        "usd_per_million_input",
        "NUMBER",
        "USD per million input tokens: the first number of --price.",
        flag=None,
    ),
    RoleKey(
        "usd_per_million_output",
        "NUMBER",
        "USD per million output tokens: the second one.",
        TALKERS,
        flag=None,
    ),
    RoleKey(
        "usd_per_hour",
        "NUMBER",
        "USD per hour of the model's server, if Parley starts one.",
        TALKERS,
        subject="server",
    ),
    RoleKey(
        "gpus",
        "NUMBER",
        "GPUs of the model's server, if Parley starts one.",
        TALKERS,
        subject="server",
    ),
    RoleKey(
        "serve",
        "NAME=VALUE",
        "How vLLM serves the model, such as replicas=2.",
        TALKERS,
        subject="server",
    ),
    RoleKey(
        "family",
        "TEXT",
        "Compare this checkpoint with the one before it in this family.",
        SUBJECT,
        subject="comparison",
    ),
)
RoleTexts = Mapping[str, Sequence[str]]
"""Key -> the texts that a user gives for it."""


def key_table() -> str:
    """Return the documentation's table of all keys, as Markdown."""
    head = "| key | value | flag | roles | |\n| --- | --- | --- | --- | --- |"
    return "\n".join([head, *(_row(key) for key in ROLE_KEYS)])


def _row(key: RoleKey) -> str:
    role: Role = "subject" if "subject" in key.roles else key.roles[0]
    flag = (
        ""
        if key.flag is None
        else f"`{key.option(role)}`" + (f", `{key.opposite(role)}`" if key.has_opposite else "")
    )
    roles = "all" if key.roles == ROLES else ", ".join(key.roles)
    form = key.form.replace("|", "\\|")
    return f"| `{key.name}` | {form} | {flag} | {roles} | {key.help} |"

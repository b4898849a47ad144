"""Keys of a role: the fields of a model request, for commands, configuration files and the docs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
    """Field of a ModelRequest that users can set."""

    name: str
    """Name of the field, and of the key in `SPEC,KEY=VALUE` and in configuration files."""
    form: Form
    """Form of the value.

    A form with `=` maps names to values; in `SPEC,KEY=VALUE`, such a key is written
    `KEY.NAME=VALUE`.
    """
    help: str
    """Help text of one line, for the command and the documentation."""
    roles: tuple[Role, ...] = ROLES
    """Roles that use the key."""
    flag: str | None = ""
    """Name of the flag without dashes; empty for the key's own name, None if the key has no
    flag."""
    flag_value: str = "true"
    """Value that a flag without an argument sets."""
    has_opposite: bool = False
    """True if `--no-FLAG` sets the opposite value."""
    is_list: bool = False
    """True if the key may be repeated."""
    subject: Subject = "endpoint"
    """Topic by which the command's help groups the key."""

    @property
    def is_map(self) -> bool:
        """True if the value maps names to values."""
        return "=" in self.form

    def option(self, role: Role) -> str:
        """Return the flag for a role, such as `--simulator-max-tokens`.

        The subject's flags have no prefix.
        """
        name = (self.flag or self.name).replace("_", "-")
        return f"--{name}" if role == "subject" else f"--{role}-{name}"

    def opposite(self, role: Role) -> str:
        """Return the flag that sets the opposite value."""
        return f"--no-{self.option(role).removeprefix('--')}"

    def parameter(self, role: Role) -> str:
        """Return the name of the parameter behind the flag of a role."""
        return f"{role}_{self.name}"


_answer_key = partial(RoleKey, roles=TALKERS, subject="answers")
_agent_key = partial(RoleKey, roles=SUBJECT, subject="agent")
_server_key = partial(RoleKey, roles=TALKERS, subject="server")
ROLE_KEYS: tuple[RoleKey, ...] = (
    RoleKey("key_env", "TEXT", "Environment variable that holds the endpoint's API key."),
    RoleKey(
        "headers",
        "NAME=ENV_VARIABLE",
        "Header of each request; its value is read from the environment variable.",
        flag="header",
    ),
    RoleKey(
        "ca_file",
        "FILE",
        "PEM file of certificate authorities to trust beside the default ones.",
        flag=None,
    ),
    RoleKey(
        "revision",
        "TEXT",
        "Name of the weights behind the endpoint. Without it, each day (UTC) begins a new run.",
    ),
    RoleKey(
        "name",
        "TEXT",
        "Name that tables show for weights or a recording on disk.",
        TALKERS,
        flag=None,
    ),
    _answer_key(
        "temperature",
        "NUMBER|default",
        "Sampling temperature; 0 is greedy (the default), `default` sends no temperature.",
    ),
    _answer_key(
        "top_p",
        "NUMBER",
        "Nucleus sampling: the smallest set of tokens whose probabilities sum to this value.",
    ),
    _answer_key(
        "max_tokens",
        "INTEGER",
        "Maximum number of tokens of one answer. Thoughts count: a thinking model needs more.",
    ),
    _answer_key("stop", "TEXT", "Text at which an answer ends; may be repeated.", is_list=True),
    RoleKey(
        "request",
        "NAME=JSON",
        "Further field of each request's body, such as top_k=20. Part of the run's id.",
    ),
    _answer_key(
        "messages",
        "native|merged|auto",
        "Form of the messages: as written (native), without a system role or two messages of one "
        "role in a row (merged), or the form that the endpoint accepts (auto).",
    ),
    _answer_key(
        "profile",
        "TEXT",
        "What the endpoint is assumed to accept: openai-reasoning, vllm, mistral, "
        "anthropic-compatible, or a YAML file. Default: learned from the endpoint's refusals.",
    ),
    _answer_key(
        "system_prompt",
        "FILE",
        "Text to place before the benchmark's own system text. Part of the run's id.",
    ),
    _answer_key(
        "reasoning_tags",
        "TEXT",
        "Tags around thoughts in an answer's text: auto, none, or think,mistral,channel,...",
    ),
    _answer_key(
        "omit_reasoning",
        "true|false",
        "Keep the model's thoughts in the text of its answers (`omit_reasoning: false`).",
        flag="keep_reasoning",
        flag_value="false",
    ),
    _agent_key(
        "tools_as_text",
        "true|false",
        "Describe an agent's tools in the text of messages, not in the endpoint's own format.",
    ),
    _agent_key(
        "agent",
        "TEXT",
        "Agent that acts as the subject and asks the model. `parley list agents` shows all.",
    ),
    _agent_key(
        "agent_options", "NAME=VALUE", "Option of the agent; may be repeated.", flag="agent_option"
    ),
    RoleKey(
        "check_served_model",
        "true|false",
        "Refuse answers of a model other than the requested one (the default).",
        ("subject", "judge", "embedder"),
        has_opposite=True,
    ),
    RoleKey(
        "batch",
        "true|false",
        "Use the batch API: half the price, up to a day. For settings of one round, and judges.",
        ("subject", "judge"),
    ),
    RoleKey(
        "timeout_s",
        "NUMBER",
        "Time limit of one answer in seconds.",
        ("subject", "judge", "embedder"),
    ),
    RoleKey(
        "patience_s",
        "NUMBER",
        "Number of seconds to wait for an endpoint that stopped answering.",
        ("subject", "judge", "embedder"),
    ),
    RoleKey(
        "concurrency",
        "INTEGER",
        "Number of requests in flight to the endpoint. Default: the run's --concurrency.",
        flag=None,
    ),
    RoleKey(
        "usd_per_million_input",
        "NUMBER",
        "Price in USD per million input tokens: the first number of --price.",
        flag=None,
    ),
    RoleKey(
        "usd_per_million_output",
        "NUMBER",
        "Price in USD per million output tokens: the second number of --price.",
        TALKERS,
        flag=None,
    ),
    _server_key(
        "usd_per_hour",
        "NUMBER",
        "Price in USD per hour of the model's server, if Parley starts it.",
    ),
    _server_key("gpus", "NUMBER", "Number of GPUs of the model's server, if Parley starts it."),
    _server_key(
        "serve", "NAME=VALUE", "Setting of the vLLM server that Parley starts, such as replicas=2."
    ),
    RoleKey(
        "family",
        "TEXT",
        "Name that successive checkpoints share: each is compared with its predecessor.",
        SUBJECT,
        subject="comparison",
    ),
)
RoleTexts = Mapping[str, Sequence[str]]
"""Key -> texts that a command's user sets for it."""


def key_table() -> str:
    """Return the documentation's Markdown table of all keys."""
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

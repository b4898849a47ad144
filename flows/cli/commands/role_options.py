"""Options that configure the model of each role (subject, judge, …), and their parsing.

The options are generated from `tasks.planning.role_keys`. A key is one setting of a model, such as
`temperature`. The parsed values form the `ModelRequest` of each role.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.options import COMPARISON, ENDPOINT, parse_options
from schemas.errors import ConfigError, UnknownName
from schemas.outside.display import plain_line
from tasks.planning.role_keys import ROLE_KEYS, ROLES, Form, Role, RoleKey, RoleTexts, Subject

if TYPE_CHECKING:
    from tasks.planning.request import ModelRequest


RoleValues = Mapping[Role, RoleTexts]
"""Map from role to key to the texts passed with the key's flag."""
_PANELS: Mapping[Subject, str] = {
    "endpoint": ENDPOINT,
    "answers": "Subject's answers",
    "agent": "Subject's agent",
    "server": "Subject's server",
    "comparison": COMPARISON,
}
_BY_NAME = {key.name: key for key in ROLE_KEYS}
_NEXT_KEY = re.compile(r",(?=[a-z][a-z_]*(?:\.[^=,\s]+)?=)")
_GROUPS = {
    key.roles: [other.name for other in ROLE_KEYS if other.roles == key.roles] for key in ROLE_KEYS
}
KEYS_HELP = (
    "Keys can follow a SPEC: openai:m@URL,temperature=0.7,request.top_k=20. The flags above set"
    " the subject's keys."
    " A prefix sets another role's: --simulator-temperature, --judge-header. `parley help roles`"
    " explains all. "
    + " ".join(
        f"Keys of {'every role' if roles == ROLES else ' and '.join(roles)}: {', '.join(names)}."
        for roles, names in _GROUPS.items()
    )
)
"""Last paragraph of the command's help, which lists all keys by role."""


def with_role_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `roles` of a command by one option for each key of each role.

    The command still receives the values in `roles`. Only the subject's options appear in `--help`;
    otherwise every key would appear four times.
    """
    own = inspect.signature(command, eval_str=True)

    def run(**values: Any) -> None:
        roles = {
            role: {key.name: texts for key, texts in _pop_values(role, values)} for role in ROLES
        }
        command(**values, roles=roles)

    parameters = [
        parameter
        for name, original in own.parameters.items()
        for parameter in (_parameters() if name == "roles" else (original,))
    ]
    run.__doc__ = command.__doc__
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  (as `inspect` documents)
    return run


def _flagged(role: Role) -> Iterator[RoleKey]:
    return (key for key in ROLE_KEYS if role in key.roles and key.flag is not None)


def _pop_values(role: Role, values: dict[str, Any]) -> Iterator[tuple[RoleKey, Sequence[str]]]:
    """Remove a role's values from `values`, and yield them by key."""
    for key in _flagged(role):
        value = values.pop(key.parameter(role))
        if isinstance(value, bool):
            other = {"true": "false", "false": "true"}[key.flag_value]
            yield key, [key.flag_value if value else other]
        elif value:
            yield key, value if isinstance(value, list) else [value]


def _parameters() -> Iterator[inspect.Parameter]:
    for role in ROLES:
        for key in _flagged(role):
            names = key.option(role) + (f"/{key.opposite(role)}" if key.has_opposite else "")
            is_bool = key.form == "true|false"
            option = typer.Option(
                names,
                metavar=None if is_bool else key.form,
                help=key.help,
                hidden=role != "subject",
                rich_help_panel=_PANELS[key.subject],
            )
            kind: Any = list[str] if key.is_list or key.is_map else bool if is_bool else str
            yield inspect.Parameter(
                key.parameter(role),
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[kind | None, option],
            )


def split_spec(role: Role, text: str) -> tuple[str, dict[str, list[str]]]:
    """Split `SPEC,KEY=VALUE,...` into the spec and its keys.

    Raises:
        UnknownName: the role has no such key.
        ConfigError: a key occurs twice, or has the wrong form.
    """
    spec, *parts = _NEXT_KEY.split(text)
    texts: dict[str, list[str]] = {}
    for part in parts:
        written, _, value = part.partition("=")
        name, dot, inner = written.partition(".")
        key = _BY_NAME.get(name)
        if key is None or role not in key.roles:
            names = [key.name for key in ROLE_KEYS if role in key.roles]
            raise UnknownName("key", name, names, of=f"--{role}")
        if key.is_map != bool(dot):
            form = f"{name}.NAME=VALUE" if key.is_map else f"{name}=VALUE"
            raise ConfigError(
                f"--{role} {plain_line(spec, 60)},{plain_line(part, 60)}: the key must have the"
                f" form {form}"
            )
        if name in texts and not (key.is_list or key.is_map):
            raise ConfigError(
                f"--{role} {plain_line(spec, 60)}: the key {name} occurs twice. Pass it once"
            )
        texts.setdefault(name, []).append(f"{inner}={value}" if key.is_map else value)
    return spec, texts


def fields_of(role: Role, flags: RoleTexts, own: RoleTexts) -> dict[str, Any]:
    """Return the ModelRequest fields that a role's flags and the keys after its spec set.

    Args:
        role: the role.
        flags: values of the role's flags.
        own: keys after the spec. A judge's keys override its flags, which apply to all judges.

    Raises:
        ConfigError: a value has the wrong form, or both a flag and a key after the spec set it.
    """
    fields: dict[str, Any] = {}
    for key in ROLE_KEYS:
        by_flag, by_key = flags.get(key.name, ()), own.get(key.name, ())
        if by_flag and by_key and role != "judge" and not (key.is_map or key.is_list):
            raise ConfigError(
                f"{key.option(role)} and {key.name} in --{role} set the same value. Remove one of"
                " them"
            )
        if key.is_map and (by_flag or by_key):
            read = _MAPS[key.form]
            fields[key.name] = {
                **read(key.option(role), by_flag),
                **read(f"--{role} ...,{key.name}", by_key),
            }
        elif key.is_list and (by_flag or by_key):
            fields[key.name] = tuple(by_key if by_key and role == "judge" else (*by_flag, *by_key))
        elif by_flag or by_key:
            fields[key.name] = _READERS.get(key.form, str)([*by_flag, *by_key][-1])
    if "serve" in fields:
        from tasks.language.servers.vllm_settings import VllmSettings

        fields["serve"] = VllmSettings.of_texts(fields["serve"])
    return fields


def _json_map(option: str, texts: Sequence[str]) -> Mapping[str, Any]:
    return {
        name: _json(option, name, text)
        for name, text in parse_options(texts, option, "NAME=JSON").items()
    }


def _json(option: str, name: str, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        quoted = json.dumps(text, ensure_ascii=False)
        raise ConfigError(
            f"{option} {name}={text!r}: the value is not valid JSON. Quote a string:"
            f" '{name}={quoted}'"
        ) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and infinities are not JSON


def _number(text: str) -> float | str:
    """Return the number, or the unchanged text, which fails the later check of the field."""
    try:
        return float(text)
    except ValueError:
        return text


_MAPS: Mapping[Form, Callable[[str, Sequence[str]], Mapping[str, Any]]] = {
    "NAME=JSON": _json_map,
    "NAME=VALUE": lambda option, texts: parse_options(texts, option),
    "NAME=ENV_VARIABLE": lambda option, texts: parse_options(texts, option, "NAME=ENV_VARIABLE"),
}
_READERS: Mapping[Form, Callable[[str], Any]] = {"NUMBER": _number, "NUMBER|default": _number}


Price = tuple[float, float] | None


def price_fields(price: Price) -> Mapping[str, Any]:
    """Return the price fields of a ModelRequest; an empty map without a price."""
    return {"usd_per_million_input": price[0], "usd_per_million_output": price[1]} if price else {}


def require_role(role: Role, named: object, roles: RoleValues, price: object) -> None:
    """Raise ConfigError if flags configure a role for which the command names no model."""
    flags = [_BY_NAME[name].option(role) for name in roles[role]]
    flags += [f"--{role}-price"] if price is not None else []
    if flags and not named:
        raise ConfigError(
            f"{', '.join(flags)}: the command names no {role}, so this has no effect. Add"
            f" --{role} SPEC, or remove it"
        )


def role_request(
    role: Role,
    text: str,
    roles: RoleValues,
    prices: Mapping[str, Any],
    also: Mapping[str, Any] = MappingProxyType({}),
) -> "ModelRequest":
    """Return the request for a role's model.

    Args:
        role: the role.
        text: the model's spec with keys.
        roles: values of the roles' flags.
        prices: price fields.
        also: default fields, which prices, flags and keys override.
    """
    from tasks.planning.request import ModelRequest

    spec, own = split_spec(role, text)
    return ModelRequest(**{**also, **prices, **fields_of(role, roles[role], own), "spec": spec})


def judge_requests(
    arguments: Sequence[str], roles: RoleValues, prices: Mapping[str, Any]
) -> "dict[str, ModelRequest]":
    """Return a map from rubric to judge, parsed from `[RUBRIC=]SPEC` arguments.

    The empty name stands for all rubrics.

    Raises:
        ConfigError: one rubric has two judges.
    """
    judges: dict[str, ModelRequest] = {}
    for text in arguments:
        before, equals, rest = text.partition("=")
        rubric, spec = (before, rest) if equals and ":" not in before else ("", text)
        if rubric in judges:
            scope = f"the rubric {rubric!r}" if rubric else "all rubrics"
            raise ConfigError(
                f"--judge names two models for {scope}: {judges[rubric].spec} and {spec}. Pass"
                " only one"
            )
        judges[rubric] = role_request("judge", spec, roles, prices)
    return judges


def simulator_request(
    text: str | None, model: "ModelRequest", roles: RoleValues, prices: Mapping[str, Any]
) -> "ModelRequest | None":
    """Return the simulator's request.

    If the simulator is the model under test, it inherits that model's endpoint, server and prices.
    """
    if text is None:
        return None
    is_model = split_spec("simulator", text)[0] == model.spec
    return role_request(
        "simulator",
        text,
        roles,
        prices,
        {name: getattr(model, name) for name in _SHARED} if is_model else {},
    )


_SHARED = ("key_env", "headers", "messages", "profile", "ca_file", "revision", "serve")
_SHARED += ("usd_per_million_input", "usd_per_million_output", "usd_per_hour", "gpus")
"""Fields that a simulator inherits from the model under test if both are the same model."""

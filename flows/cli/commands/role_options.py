"""Options of a command that set the keys of its roles, made from their one definition (`tasks.planning.role_keys`)."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from flows.cli.commands.key_values import parse_options
from flows.cli.panels import AGENT, ANSWERS, COMPARISON, ENDPOINT, SERVER
from schemas.errors import ConfigError, UnknownName
from schemas.outside.display import plain_line
from tasks.planning.role_keys import ROLE_KEYS, ROLES, Form, Role, RoleKey, RoleTexts, Subject

RoleValues = Mapping[Role, RoleTexts]
"""Role -> key -> the texts that its flags give."""
_PANELS: Mapping[Subject, str] = {
    "endpoint": ENDPOINT,
    "answers": ANSWERS,
    "agent": AGENT,
    "server": SERVER,
    "comparison": COMPARISON,
}
_BY_NAME = {key.name: key for key in ROLE_KEYS}
_NEXT_KEY = re.compile(r",(?=[a-z][a-z_]*(?:\.[^=,\s]+)?=)")
_GROUPS = {
    key.roles: [other.name for other in ROLE_KEYS if other.roles == key.roles] for key in ROLE_KEYS
}
KEYS_HELP = (
    "Keys may follow a SPEC: openai:m@URL,temperature=0.7,request.top_k=20. The flags above are the subject's keys; other roles"
    " have such flags, too: --simulator-temperature, --judge-header. "
    + " ".join(
        f"Keys of {'every role' if roles == ROLES else ' and '.join(roles)}: {', '.join(names)}."
        for roles, names in _GROUPS.items()
    )
)
"""End of the command's help: every key with its roles."""


def with_role_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with an option for each key of each role, in the place of its parameter `roles`, which gets the values.

    The options of all roles but the subject are hidden from `--help`, which would show each key four times.
    """
    own = inspect.signature(command, eval_str=True)

    def run(**values: Any) -> None:
        roles = {role: {key.name: texts for key, texts in _taken(role, values)} for role in ROLES}
        command(**values, roles=roles)

    parameters = [
        one
        for name, each in own.parameters.items()
        for one in (_parameters() if name == "roles" else (each,))
    ]
    run.__doc__ = command.__doc__
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  (as `inspect` documents)
    return run


def _flagged(role: Role) -> Iterator[RoleKey]:
    return (key for key in ROLE_KEYS if role in key.roles and key.flag is not None)


def _taken(role: Role, values: dict[str, Any]) -> Iterator[tuple[RoleKey, Sequence[str]]]:
    """Take a role's values out of all."""
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
    """Return the spec of `SPEC,KEY=VALUE,...` and its keys with their texts.

    Raises:
        UnknownName: a key that the role does not have.
        ConfigError: a key is given twice, or as `KEY.NAME` where it has no names.
    """
    spec, *parts = _NEXT_KEY.split(text)
    found: dict[str, list[str]] = {}
    for part in parts:
        written, _, value = part.partition("=")
        name, dot, inner = written.partition(".")
        key = _BY_NAME.get(name)
        if key is None or role not in key.roles:
            known = [one.name for one in ROLE_KEYS if role in one.roles]
            raise UnknownName("key", name, known, of=f"--{role}")
        if key.is_map != bool(dot):
            form = f"{name}.NAME=VALUE" if key.is_map else f"{name}=VALUE"
            raise ConfigError(
                f"--{role} {plain_line(spec, 60)},{plain_line(part, 60)}: write {form}"
            )
        if name in found and not (key.is_list or key.is_map):
            raise ConfigError(f"--{role} {plain_line(spec, 60)}: the key {name} is given twice")
        found.setdefault(name, []).append(f"{inner}={value}" if key.is_map else value)
    return spec, found


def fields_of(role: Role, flags: RoleTexts, own: RoleTexts) -> dict[str, Any]:
    """Return the fields of a ModelRequest that its flags and the keys behind its spec set.

    Args:
        own: the keys behind the spec. For a judge they win, since its flags are those of all judges.

    Raises:
        ConfigError: a value does not have the form of its key, or a key is given by a flag and behind the spec.
    """
    fields: dict[str, Any] = {}
    for key in ROLE_KEYS:
        by_flag, by_key = flags.get(key.name, ()), own.get(key.name, ())
        if by_flag and by_key and role != "judge" and not (key.is_map or key.is_list):
            raise ConfigError(
                f"{key.option(role)} and the key {key.name} behind --{role} say the same; leave one of them out"
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
            f"{option} {name}={text!r}: the value is not JSON. A text stands in quotes: '{name}={quoted}'"
        ) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and the infinities are no JSON


def _number(text: str) -> float | str:
    """Return the number, or the text as it is: the field that takes it names what it wants."""
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

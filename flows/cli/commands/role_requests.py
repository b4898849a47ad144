"""Requests for the model of each role (subject, judge, …), built from specs, flags and prices."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flows.cli.commands.role_options import RoleValues, fields_of, split_spec
from schemas.errors import ConfigError
from tasks.planning.role_keys import Role

if TYPE_CHECKING:
    from tasks.planning.request import ModelRequest

Price = tuple[float, float] | None


def price_fields(price: Price) -> Mapping[str, Any]:
    """Return the price fields of a ModelRequest; an empty map without a price."""
    return {"usd_per_million_input": price[0], "usd_per_million_output": price[1]} if price else {}


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
        also: defaults, which prices, flags and keys override.
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

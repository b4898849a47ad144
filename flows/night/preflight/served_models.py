"""Notices that another model is served under a name whose dialogues are already kept.

An endpoint's model without a stated revision counts as one model for a day (UTC). Parley keeps the facts that the endpoint tells
of it, and compares them at each later sight: two checkpoints served one after the other must not share their dialogues.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.embedding import EmbedderIdentity
from schemas.errors import ConfigError, ParleyError
from schemas.outside.display import plain_line
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.providers.registry import PROVIDERS
from tasks.planning.plan import RunPlan
from tasks.storage.home import Home
from tasks.storage.replaced_file import replace_file

Facts = Mapping[str, str]
ADDRESS, OWNER = "base_url", "owned_by"


@dataclass(frozen=True)
class _Seat:
    """One model of a run that an endpoint serves."""

    role: str
    identity: ModelIdentity | EmbedderIdentity
    endpoint: ModelEndpoint
    is_stated: bool
    """Whether the user says which weights they are."""


def require_same_models(plan: RunPlan) -> None:
    """Compare the facts that the endpoints of a run's models tell now with those kept at the first sight of each model.

    Endpoints that do not answer at once are left out: the run asks them again when it needs them.

    Raises:
        ConfigError: another model is served under a name; names what differs and the remedy.
    """
    for seat in _seats(plan):
        facts = None if seat.is_stated else _ask(seat)
        if facts is None:
            continue
        path = _path(plan.home, seat.identity)
        if (known := _read(path)) is None:
            replace_file(path, json.dumps(facts, sort_keys=True, indent=1).encode())
        elif changes := differences(known, facts):
            raise ConfigError(_refusal(seat, changes))


def endpoint_facts(plan: RunPlan) -> tuple[tuple[str, str], ...]:
    """Return (role, facts kept of the model) of each model of a run; none of models whose revision is stated."""
    kept = (
        (seat.role, _read(_path(plan.home, seat.identity)))
        for seat in _seats(plan)
        if not seat.is_stated
    )
    lines = (
        (role, ", ".join(f"{name} {value}" for name, value in facts.items()))
        for role, facts in kept
        if facts
    )
    return tuple(dict.fromkeys(lines))


def differences(known: Facts, seen: Facts) -> tuple[str, ...]:
    """Say in which facts two sights of a model differ. Its address counts where no fact that both have tells models apart."""
    common = (known.keys() & seen.keys()) - {ADDRESS}
    if not common - {OWNER}:
        common |= {ADDRESS}
    return tuple(
        f"{name} is {seen[name]!r}, and was {known[name]!r}"
        for name in sorted(common)
        if seen[name] != known[name]
    )


def _seats(plan: RunPlan) -> Iterator[_Seat]:
    models = [
        (who, where, what) for who, where, what in plan.models if PROVIDERS.load(who.provider).facts
    ]
    judges = [judge.judge.judge for judge in plan.judges.values()]
    for identity, endpoint, asked in models:
        role = (
            "judge"
            if identity in judges
            else "simulator"
            if identity == plan.spec.simulator
            else "subject"
        )
        role = "subject" if identity == plan.spec.subject else role
        yield _Seat(role, identity, endpoint, asked.revision is not None)
    embedder, asked = plan.spec.embedder, plan.request.embedder
    if (
        embedder is not None
        and plan.embedder is not None
        and asked is not None
        and embedder.is_hosted
    ):
        yield _Seat("embedder", embedder, plan.embedder, asked.revision is not None)


def _ask(seat: _Seat) -> Facts | None:
    import asyncio

    tell = PROVIDERS.load(seat.identity.provider).facts
    model = ModelIdentity(
        provider=seat.identity.provider, name=seat.identity.name, revision=seat.identity.revision
    )
    with suppress(ParleyError):  # a missing key or a dead endpoint is named where it is needed
        return asyncio.run(tell(model, seat.endpoint, os.environ)) if tell else None
    return None


def _path(home: Home, identity: ModelIdentity | EmbedderIdentity) -> Path:
    return home.served_models / f"{content_id([identity.label, identity.revision])}.json"


def _read(path: Path) -> Facts | None:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): str(value) for name, value in facts.items()}
    except (OSError, ValueError, AttributeError):
        return None  # never seen, or torn: it is kept anew


def _refusal(seat: _Seat, changes: tuple[str, ...]) -> str:
    option = "--revision" if seat.role == "subject" else f"--{seat.role}-revision"
    return (
        f"{seat.role} {plain_line(seat.identity.label)}: its endpoint serves another model under this name than it did"
        f" before ({plain_line('; '.join(changes))}), and dialogues of that one are kept. Say which weights are served now by"
        f" {option} NAME (`revision` in a configuration file), or by {option} {seat.identity.revision} if they are the same"
    )

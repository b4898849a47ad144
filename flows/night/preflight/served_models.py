"""Detection of an endpoint that serves other weights than earlier, under the same model name.

If the command or configuration states no revision, a model name at an endpoint counts as one model
for a day (UTC). Parley stores the facts that the endpoint reports about the model, and compares
them in later runs. Two checkpoints that an endpoint serves one after the other must not share
dialogues.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.errors import ConfigError, ParleyError
from schemas.outside.display import plain_line
from schemas.run import ModelIdentity
from tasks.language.access import ModelAccess, client_access
from tasks.language.providers.registry import PROVIDERS
from tasks.planning.plan import RunPlan
from tasks.storage.home import Home
from tasks.storage.new_folder import replace_file

Facts = Mapping[str, str]
ADDRESS, OWNER = "base_url", "owned_by"


@dataclass(frozen=True)
class _RoleModel:
    """Model in one role of a run."""

    role: str
    access: ModelAccess
    is_stated: bool
    """True if the command or configuration states a revision, which identifies the weights."""


def require_same_models(plan: RunPlan) -> None:
    """Compare the facts about a run's models with the facts stored at the first use of each model.

    Endpoints that do not answer within a few seconds are skipped: the run connects to them when it
    needs them.

    Raises:
        ConfigError: An endpoint serves another model under the same name. The message names the
            differences and the remedy.
    """
    for model in _role_models(plan):
        facts = None if model.is_stated else _current_facts(model)
        if facts is None:
            continue
        path = _path(plan.home, model.access.identity)
        if (stored := _read(path)) is None:
            replace_file(path, json.dumps(facts, sort_keys=True, indent=1).encode())
        elif changes := differences(stored, facts):
            raise ConfigError(_changed_model_message(model, changes))


def endpoint_facts(plan: RunPlan) -> tuple[tuple[str, str], ...]:
    """Return (role, stored facts) for each of the run's models whose revision is not stated.

    The facts are those that the model's endpoint reported at the first use of the model, as text
    such as `base_url http://host/v1, owned_by vllm`. Models without stored facts are left out.
    """
    lines: dict[tuple[str, str], None] = {}
    for model in _role_models(plan):
        facts = None if model.is_stated else _read(_path(plan.home, model.access.identity))
        if facts:
            text = ", ".join(f"{name} {value}" for name, value in facts.items())
            lines[model.role, text] = None
    return tuple(lines)


def differences(stored: Facts, current: Facts) -> tuple[str, ...]:
    """Return the facts that differ between two observations of a model.

    Addresses are compared only if no other common fact could tell two models apart.
    """
    common = (stored.keys() & current.keys()) - {ADDRESS}
    if not common - {OWNER}:
        common |= {ADDRESS}
    return tuple(
        f"{name} is {current[name]!r} and was {stored[name]!r}"
        for name in sorted(common)
        if current[name] != stored[name]
    )


def _role_models(plan: RunPlan) -> Iterator[_RoleModel]:
    roles = {model.identity: model.role for model in plan.models}
    roles[plan.spec.subject] = "subject"
    for model in plan.models:
        if PROVIDERS.load(model.identity.provider).facts is not None:
            is_stated = model.request.revision is not None
            yield _RoleModel(roles[model.identity], model.access, is_stated)
    embedder, request = plan.embedder, plan.request.embedder
    if embedder is not None and request is not None and embedder.identity.is_hosted:
        yield _RoleModel("embedder", client_access(embedder), request.revision is not None)


def _current_facts(model: _RoleModel) -> Facts | None:
    import asyncio

    read_facts = PROVIDERS.load(model.access.identity.provider).facts
    with suppress(ParleyError):  # A missing key or a dead endpoint is reported when it is needed.
        return asyncio.run(read_facts(model.access, os.environ)) if read_facts else None
    return None


def _path(home: Home, identity: ModelIdentity) -> Path:
    return home.served_models / f"{content_id([identity.label, identity.revision])}.json"


def _read(path: Path) -> Facts | None:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): str(value) for name, value in facts.items()}
    except (OSError, ValueError, AttributeError):
        return None  # The model is new or the file is damaged. The caller writes it.


def _changed_model_message(model: _RoleModel, changes: tuple[str, ...]) -> str:
    option = "--revision" if model.role == "subject" else f"--{model.role}-revision"
    return (
        f"{model.role} {plain_line(model.access.label)}: its endpoint now serves another model"
        f" under this name ({plain_line('; '.join(changes))}), and dialogues of the earlier model"
        f" are stored. Name the new weights with {option} NAME (`revision` in a configuration"
        f" file), or pass {option} {model.access.identity.revision} if the weights did not change"
    )

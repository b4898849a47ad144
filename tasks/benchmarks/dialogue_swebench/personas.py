"""Personas of simulated users: a name and a description, drawn for each instance from its id."""

import hashlib
from functools import cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tasks.language.prompt import fill

SEED = "dialogue_swebench personas 1"
"""Seed, hashed with each instance's id. Another seed requires another version of the benchmark."""


class Personas(BaseModel):
    """Names and descriptions to draw from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[str, ...] = Field(min_length=1)
    descriptions: dict[str, str] = Field(min_length=1)


@cache
def personas() -> Personas:
    """Return the bundled personas."""
    return Personas.model_validate(
        yaml.safe_load((files(__package__ or "") / "personas.yaml").read_text(encoding="utf-8"))
    )


def draw_persona(instance_id: str) -> tuple[str, str]:
    """Return the name of the description, and the persona's text."""
    choices = personas()
    number = int.from_bytes(hashlib.sha256(f"{SEED}\0{instance_id}".encode()).digest()[:8], "big")
    kind = sorted(choices.descriptions)[number % len(choices.descriptions)]
    name = choices.names[number // len(choices.descriptions) % len(choices.names)]
    return kind, fill(choices.descriptions[kind], name=name)

"""Simulated users: a name and a description, drawn for each instance from its id, the same in every staging."""

import hashlib
from functools import cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tasks.language.prompt import fill

SEED = "dialogue_swebench personas 1"
"""Drawn with each instance's id. Another seed is another version of the benchmark."""


class Personas(BaseModel):
    """The names and descriptions to draw from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[str, ...] = Field(min_length=1)
    descriptions: dict[str, str] = Field(min_length=1)


@cache
def personas() -> Personas:
    """The bundled ones."""
    return Personas.model_validate(
        yaml.safe_load((files(__package__ or "") / "personas.yaml").read_text(encoding="utf-8"))
    )


def drawn_persona(instance_id: str) -> tuple[str, str]:
    """Name of the description, and the persona's text."""
    known = personas()
    number = int.from_bytes(hashlib.sha256(f"{SEED}\0{instance_id}".encode()).digest()[:8], "big")
    kind = sorted(known.descriptions)[number % len(known.descriptions)]
    name = known.names[number // len(known.descriptions) % len(known.names)]
    return kind, fill(known.descriptions[kind], name=name)

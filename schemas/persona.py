"""Simulated users (Talk2Code: three levels of expertise; Dialogue-SWEBench: persona attributes)."""

from enum import StrEnum

from schemas.base import Frozen


class ExpertiseLevel(StrEnum):
    """How much a simulated user knows of programming, least first."""

    NOVICE = "novice"
    INTERMEDIATE = "intermediate"
    EXPERT = "expert"


class Persona(Frozen):
    """Who the simulated user is; its text becomes part of the episode's id."""

    persona_id: str
    level: ExpertiseLevel
    traits: tuple[tuple[str, str], ...] = ()

"""Simulated users (Talk2Code: three levels of expertise; Dialogue-SWEBench: persona attributes)."""

from enum import StrEnum

from schemas.base import Frozen


class ExpertiseLevel(StrEnum):
    """Programming knowledge of a simulated user, lowest first."""

    NOVICE = "novice"
    INTERMEDIATE = "intermediate"
    EXPERT = "expert"


class Persona(Frozen):
    """Description of a simulated user. Its text is part of the episode's id."""

    persona_id: str
    level: ExpertiseLevel
    traits: tuple[tuple[str, str], ...] = ()

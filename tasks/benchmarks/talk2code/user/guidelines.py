"""How users talk, by level and persona (Manual Dialogue Curation), from `guidelines.yaml`: for the writer, and for the rules."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import yaml
from pydantic import Field

from schemas.base import Frozen
from schemas.persona import ExpertiseLevel

FILE = "guidelines.yaml"


class Guideline(Frozen):
    """A level's, or a persona's."""

    rounds: tuple[int, int]
    """Fewest and most messages of the user."""
    opening: float = Field(gt=0, lt=1)
    """Share of what is disclosed in the end that the first message may hold, at most."""
    guidance: str
    avoids: tuple[str, ...]
    avoids_until_last: bool = False
    """The last message is free of `avoids`: there names are passed on."""
    never_says: tuple[str, ...] = ()
    """The persona's own; the last message is no exception."""
    uses: tuple[str, ...] = ()
    least_used: int = 0
    """How many of `uses` a user says, at least."""


class _File(Frozen):
    levels: Mapping[ExpertiseLevel, Guideline]
    personas: Mapping[str, tuple[str, ...]]


@cache
def _file() -> _File:
    return _File.model_validate(yaml.safe_load(guideline_text()))


def guideline_of(level: ExpertiseLevel, persona: str = "") -> Guideline:
    """How users of a level talk, and what a persona among them never says."""
    return (
        _file().levels[level].model_copy(update={"never_says": _file().personas.get(persona, ())})
    )


def guideline_text() -> str:
    """The file as it stands: part of a build's id."""
    return (files("tasks.benchmarks.talk2code") / FILE).read_text(encoding="utf-8")


def terms_in(text: str, terms: tuple[str, ...]) -> tuple[str, ...]:
    """The terms that a text holds as words of their own, in any case, also with an ending (`integers`, `returned`)."""
    return tuple(term for term in terms if _pattern(term).search(text))


@cache
def _pattern(term: str) -> re.Pattern[str]:
    spaced = r"\s+".join(map(re.escape, term.split()))
    ending = r"(?:s|es|d|ed|ing)?(?!\w)" if term[-1].isalnum() else ""
    return re.compile(rf"(?<![\w.]){spaced}{ending}", re.IGNORECASE)

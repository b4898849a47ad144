"""Guidelines for the language of users by level and persona, from `guidelines.yaml`.

The paper calls this Manual Dialogue Curation. The prompts for written dialogues and the rules for
them use the guidelines.
"""

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
    """Guideline for users of a level or a persona."""

    rounds: tuple[int, int]
    """Minimum and maximum number of the user's messages."""
    opening: float = Field(gt=0, lt=1)
    """Maximum share of all disclosed words that the first message may contain."""
    guidance: str
    avoids: tuple[str, ...]
    """Terms that the user does not use."""
    avoids_until_last: bool = False
    """True if the last message, which passes on names, may contain terms of `avoids`."""
    never_says: tuple[str, ...] = ()
    """Terms that the persona does not use in any message."""
    uses: tuple[str, ...] = ()
    """Terms of which the user uses at least `least_used`."""
    least_used: int = 0
    """Minimum number of terms from `uses`."""


class _File(Frozen):
    levels: Mapping[ExpertiseLevel, Guideline]
    personas: Mapping[str, tuple[str, ...]]


@cache
def _file() -> _File:
    return _File.model_validate(yaml.safe_load(guideline_text()))


def guideline_of(level: ExpertiseLevel, persona: str = "") -> Guideline:
    """Return the guideline of a level, with the terms that a persona never says."""
    return (
        _file().levels[level].model_copy(update={"never_says": _file().personas.get(persona, ())})
    )


def guideline_text() -> str:
    """Return the text of the file, which is part of a build's id."""
    return (files("tasks.benchmarks.talk2code") / FILE).read_text(encoding="utf-8")


def terms_in(text: str, terms: tuple[str, ...]) -> tuple[str, ...]:
    """Return the terms that a text contains as words, ignoring case and endings.

    For example, `integers` contains the term `integer`.
    """
    return tuple(term for term in terms if _pattern(term).search(text))


@cache
def _pattern(term: str) -> re.Pattern[str]:
    spaced = r"\s+".join(map(re.escape, term.split()))
    ending = r"(?:s|es|d|ed|ing)?(?!\w)" if term[-1].isalnum() else ""
    return re.compile(rf"(?<![\w.]){spaced}{ending}", re.IGNORECASE)

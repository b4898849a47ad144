"""Personas of simulated users (Programming User Taxonomy), each in a YAML file of its own.

`guidelines.yaml` has guidelines for the wording of users by level and persona, which the paper
calls Manual Dialogue Curation. Prompts and rules for written dialogues use the guidelines.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from schemas.base import Frozen
from schemas.dialog import ExpertiseLevel, Persona
from schemas.errors import SourceUnreadable
from tasks.benchmarks.raw_rows import Text

FOLDER = "personas"
SUFFIX = ".yaml"
BUILT = ".persona.yaml"


class PersonaFile(Frozen):
    """Content of a persona's file."""

    level: ExpertiseLevel
    background: Text
    communication_style: Text
    request_types: Text
    cognitive_tendencies: Text
    interaction_expectations: Text

    def persona(self, name: str) -> Persona:
        """Return the persona with this name, its traits in the order of the fields."""
        traits = self.model_dump(exclude={"level"})
        return Persona(persona_id=name, level=self.level, traits=tuple(traits.items()))


@cache
def bundled_personas() -> Mapping[str, Persona]:
    """Return the paper's six archetypes, two of each level."""
    return _read((files("tasks.benchmarks.talk2code") / FOLDER).iterdir())


def personas_of(source: Path) -> Mapping[str, Persona]:
    """Return the bundled personas and those of the data, which override bundled ones of equal name.

    The files of the data's personas are in its subfolder `personas`, or in its folder itself as
    `NAME.persona.yaml`, where a build writes them.

    Raises:
        SourceUnreadable: a file is not a valid persona.
    """
    data_folder = source if source.is_dir() else source.parent
    folder = data_folder / FOLDER
    built_personas = {
        name: _persona(name, file)
        for file in sorted(data_folder.glob(f"*{BUILT}"))
        if (name := file.name.removesuffix(BUILT))
    }
    return {
        **bundled_personas(),
        **built_personas,
        **(_read(folder.iterdir()) if folder.is_dir() else {}),
    }


def persona_file(persona: Persona) -> tuple[str, str]:
    """Return name and text of a persona's file, which `personas_of` finds in the data's folder."""
    text = yaml.safe_dump(
        {"level": persona.level.value, **dict(persona.traits)}, sort_keys=False, allow_unicode=True
    )
    return f"{persona.persona_id}{BUILT}", text


def _read(files: Iterable[Traversable]) -> dict[str, Persona]:
    persona_files = sorted(
        (file for file in files if file.name.endswith(SUFFIX)), key=lambda file: file.name
    )
    return {
        (name := file.name.removesuffix(SUFFIX)): _persona(name, file) for file in persona_files
    }


def _persona(name: str, file: Traversable) -> Persona:
    try:
        return PersonaFile.model_validate(yaml.safe_load(file.read_text(encoding="utf-8"))).persona(
            name
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        fields = ", ".join(PersonaFile.model_fields)
        raise SourceUnreadable(
            f"persona {file}: {str(error).splitlines()[0]}. The file must have the fields {fields}"
        ) from None


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
    """True if the last message, which states names that tests call, may contain `avoids` terms."""
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

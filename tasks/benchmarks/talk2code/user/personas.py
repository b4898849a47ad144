"""Simulated users as data: one YAML file each (Programming User Taxonomy). The file's name is the persona's."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.errors import SourceUnreadable
from schemas.persona import ExpertiseLevel, Persona
from tasks.benchmarks.raw_lines import Text

FOLDER = "personas"
SUFFIX = ".yaml"
BUILT = ".persona.yaml"


class PersonaFile(BaseModel):
    """The fields of a persona's file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: ExpertiseLevel
    background: Text
    communication_style: Text
    request_types: Text
    cognitive_tendencies: Text
    interaction_expectations: Text

    def named(self, name: str) -> Persona:
        """The persona of that name, its traits in the order of the fields."""
        traits = self.model_dump(exclude={"level"})
        return Persona(persona_id=name, level=self.level, traits=tuple(traits.items()))


@cache
def bundled_personas() -> Mapping[str, Persona]:
    """The paper's six archetypes, two of each level."""
    return _read((files("tasks.benchmarks.talk2code") / FOLDER).iterdir())


def personas_of(source: Path) -> Mapping[str, Persona]:
    """The bundled personas, and those beside the data, which come first where names are equal.

    They lie in a folder `personas`, or directly beside the data as `NAME.persona.yaml`, as a build leaves them.

    Raises:
        SourceUnreadable: a file that is no persona.
    """
    beside = source if source.is_dir() else source.parent
    folder = beside / FOLDER
    built = {
        name: _persona(name, file)
        for file in sorted(beside.glob(f"*{BUILT}"))
        if (name := file.name.removesuffix(BUILT))
    }
    return {**bundled_personas(), **built, **(_read(folder.iterdir()) if folder.is_dir() else {})}


def persona_file(persona: Persona) -> tuple[str, str]:
    """Name and text of a file beside the data that `personas_of` reads."""
    text = yaml.safe_dump(
        {"level": persona.level.value, **dict(persona.traits)}, sort_keys=False, allow_unicode=True
    )
    return f"{persona.persona_id}{BUILT}", text


def _read(found: Iterable[Traversable]) -> dict[str, Persona]:
    ours = sorted(
        (file for file in found if file.name.endswith(SUFFIX)), key=lambda file: file.name
    )
    return {(name := file.name.removesuffix(SUFFIX)): _persona(name, file) for file in ours}


def _persona(name: str, file: Traversable) -> Persona:
    try:
        return PersonaFile.model_validate(yaml.safe_load(file.read_text(encoding="utf-8"))).named(
            name
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        wanted = ", ".join(PersonaFile.model_fields)
        raise SourceUnreadable(
            f"persona {file}: needs the texts {wanted} ({str(error).splitlines()[0]})"
        ) from None

"""Personas of simulated users (Programming User Taxonomy): one YAML file each, named after it."""

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
    """Content of a persona's file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """Return the bundled personas and those beside the data, which override equal names.

    Files of personas lie in a folder `personas`, or directly beside the data as
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
    """Return name and text of a persona's file beside the data, in the form `personas_of` reads."""
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

"""Profiles that users name: YAML files of Parley's own, files in a folder of the user's, or any file by its path."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from schemas.content_id import content_id
from schemas.endpoint_profile import EndpointProfile
from schemas.errors import ConfigError, UnknownName
from schemas.outside.display import plain_line
from tasks.language.endpoints.reasoning import tag_names

FOLDER = "profiles"
"""Name of the folder, in the home too: `<home>/profiles/NAME.yaml` adds the profile NAME."""
_SUFFIXES = (".yaml", ".yml")
_FOUND_OUT = "thoughts"
"""Field that only an endpoint's answers tell."""


def profile_names(home: Path) -> Mapping[str, str]:
    """Return name -> text of every known profile. A user's file comes before one of Parley's with the same name."""
    own = {
        Path(entry.name).stem: entry
        for entry in files("tasks.language.endpoints").joinpath(FOLDER).iterdir()
    }
    added = {path.stem: path for path in sorted((home / FOLDER).glob("*.yaml"))}
    return {name: entry.read_text(encoding="utf-8") for name, entry in {**own, **added}.items()}


def load_profile(choice: str, home: Path) -> tuple[EndpointProfile, str]:
    """Return (the profile, its name with a digest of its content, as ids hold it).

    Args:
        choice: a name, or the path of a YAML file.

    Raises:
        UnknownName: no profile has this name.
        ConfigError: the file cannot be read, or does not hold a profile.
    """
    if choice.endswith(_SUFFIXES) or "/" in choice:
        path = Path(choice).expanduser()
        try:
            name, text = path.stem, path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"profile {plain_line(choice)!r}: the file cannot be read ({error})"
            ) from None
    else:
        known = profile_names(home)
        if choice not in known:
            remedy = f"A file of your own: --profile PATH.yaml, or {home / FOLDER}/NAME.yaml"
            raise UnknownName("profile", choice, sorted(known), remedy)
        name, text = choice, known[choice]
    profile = read_profile(text, choice)
    stated = profile.model_dump(
        mode="json", exclude_defaults=True
    )  # a field that comes later moves no id
    return profile, f"{name} {content_id(stated)[:12]}"


def read_profile(text: str, place: str) -> EndpointProfile:
    """Read the YAML text of a profile.

    Raises:
        ConfigError: names what is wrong, and the known fields.
    """
    import yaml

    fields = sorted(EndpointProfile.model_fields.keys() - {_FOUND_OUT})
    try:
        given = yaml.safe_load(text)
        if not isinstance(given, dict) or _FOUND_OUT in given:
            raise ValueError("not one mapping of its fields")
        profile = EndpointProfile.model_validate(given)
        tag_names(profile.reasoning_tags)
    except ValidationError as error:
        first = error.errors()[0]
        said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (ValueError, yaml.YAMLError, UnknownName) as error:
        said = " ".join(str(error).split())
    else:
        return profile.model_copy(update={"refused": tuple(sorted(set(profile.refused)))})
    raise ConfigError(
        f"profile {plain_line(place)!r}: {plain_line(said)}. Its fields: {', '.join(fields)}"
    )

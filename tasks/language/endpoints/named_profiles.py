"""Profiles of endpoints: known ones, and how a profile is adapted."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from schemas.content_id import content_id
from schemas.errors import ConfigError, UnknownName
from schemas.outside.display import plain_line
from schemas.run import EndpointProfile
from tasks.language.endpoints.answer_text import tag_names
from tasks.language.endpoints.faults import Fault

FOLDER = "profiles"
"""Folder of profiles in this package and in the home: `<home>/profiles/NAME.yaml` adds NAME."""
_SUFFIXES = (".yaml", ".yml")
_FOUND_OUT = "thoughts"
"""Profile field that no file may set, because only an endpoint's answers determine it."""


def profile_names(home: Path) -> Mapping[str, str]:
    """Return the text of each known profile by name. A profile in the home overrides Parley's."""
    own = {
        Path(entry.name).stem: entry
        for entry in files("tasks.language.endpoints").joinpath(FOLDER).iterdir()
    }
    added = {path.stem: path for path in sorted((home / FOLDER).glob("*.yaml"))}
    return {name: entry.read_text(encoding="utf-8") for name, entry in {**own, **added}.items()}


def load_profile(choice: str, home: Path) -> tuple[EndpointProfile, str]:
    """Return the profile, and its name plus digest of its content, which stand in ids.

    Args:
        choice: Name, or path of a YAML file.
        home: Parley's data folder.

    Raises:
        UnknownName: No profile has this name.
        ConfigError: The file cannot be read or does not contain a profile.
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
        profiles = profile_names(home)
        if choice not in profiles:
            remedy = f"To use your own, pass --profile PATH.yaml or add {home / FOLDER}/NAME.yaml"
            raise UnknownName("profile", choice, sorted(profiles), remedy)
        name, text = choice, profiles[choice]
    profile = read_profile(text, choice)
    # A field that comes later moves no id.
    stated = profile.model_dump(mode="json", exclude_defaults=True)
    return profile, f"{name} {content_id(stated)[:12]}"


def read_profile(text: str, place: str) -> EndpointProfile:
    """Read the YAML text of a profile.

    Raises:
        ConfigError: The text is invalid. The message names the fault and the known fields.
    """
    import yaml

    fields = sorted(EndpointProfile.model_fields.keys() - {_FOUND_OUT})
    try:
        fields_given = yaml.safe_load(text)
        if not isinstance(fields_given, dict) or _FOUND_OUT in fields_given:
            raise ValueError("the file is not a mapping of profile fields")
        profile = EndpointProfile.model_validate(fields_given)
        tag_names(profile.reasoning_tags)
    except ValidationError as error:
        first = error.errors()[0]
        message = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (ValueError, yaml.YAMLError, UnknownName) as error:
        message = " ".join(str(error).split())
    else:
        return profile.model_copy(update={"refused": tuple(sorted(set(profile.refused)))})
    raise ConfigError(
        f"profile {plain_line(place)!r}: {plain_line(message)}. Its fields: {', '.join(fields)}"
    )


def adapt(profile: EndpointProfile, fault: Fault) -> EndpointProfile | None:
    """Return the profile that a rejection suggests, or None if no other form can help."""
    match fault.kind:
        case "token_limit_name":
            return profile.model_copy(update={"token_limit_name": "max_completion_tokens"})
        case "answer_schema":
            return profile.model_copy(update={"takes_schema": False})
        case "no_tools":
            return profile.model_copy(update={"takes_tools": False})
        case "parameter":
            return profile.without(fault.parameter)
        case "merged_messages" if profile.messages != "native":
            return profile.model_copy(update={"messages": "merged"})
        case _:
            return None

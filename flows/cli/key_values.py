"""`K=V` arguments."""

from collections.abc import Iterable

from schemas.errors import ConfigError


def parse_options(given: Iterable[str]) -> dict[str, str]:
    """`["a=1"]` -> `{"a": "1"}`.

    Raises:
        ConfigError: an argument without `=`, or a name given twice.
    """
    options: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"--option {item!r} is not of the form NAME=VALUE")
        if name in options:
            raise ConfigError(f"--option {name} is given twice: {options[name]!r} and {value!r}")
        options[name] = value
    return options

"""`K=V` arguments."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.errors import ConfigError
from schemas.night.caps import CAPS

if TYPE_CHECKING:
    from schemas.night.budget import Budget

BudgetCaps = Annotated[
    list[str] | None,
    typer.Option(metavar="CAP=LIMIT", help=f"Stop at usd=5,hours=2 or the like; may be repeated. Caps: {', '.join(CAPS)}."),
]
Resources = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="Something that the data need beside them, such as repos=DIR or images=swebench; may be repeated.",
    ),
]


def parse_budget(given: Iterable[str], stated: "Budget | None" = None) -> "Budget | None":
    """`["usd=5,hours=2", "tokens=1000000"]` -> a budget; None where nothing is given or stated.

    Args:
        stated: a configuration's budget; each given cap takes the place of its own.

    Raises:
        ConfigError: an argument without `=`, or a cap given twice.
        ValidationError: no such cap, or no number above 0.
    """
    from schemas.night.budget import Budget

    caps: dict[str, str] = {}
    for item in (part.strip() for text in given for part in text.split(",")):
        name, equals, value = item.partition("=")
        name = "wall_hours" if name == "hours" else name
        if not equals or not name:
            raise ConfigError(f"--budget {item!r} is not of the form CAP=LIMIT, such as usd=5; caps: {', '.join(CAPS)}")
        if name in caps:
            raise ConfigError(f"--budget {name} is given twice: {caps[name]!r} and {value!r}")
        caps[name] = value
    if not caps:
        return stated
    return Budget.model_validate((stated.model_dump(exclude_none=True) if stated else {}) | caps)


def parse_options(given: Iterable[str], flag: str = "--option", form: str = "NAME=VALUE") -> dict[str, str]:
    """`["a=1"]` -> `{"a": "1"}`.

    Args:
        form: what an argument is, as its help says it.

    Raises:
        ConfigError: an argument without `=`, or a name given twice.
    """
    options: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag} {item!r} is not of the form {form}")
        if name in options:
            raise ConfigError(f"{flag} {name} is given twice: {options[name]!r} and {value!r}")
        options[name] = value
    return options


def parse_resources(given: Iterable[str], benchmark: str) -> dict[str, str]:
    """`["repos=DIR"]` -> `{"repos": "/where/DIR"}`; what the benchmark wants a name for stays as it is.

    Raises:
        ConfigError: as `parse_options`.
    """
    found = parse_options(given, "--resource")
    if not found:
        return {}
    from tasks.planning.dataset import located

    return located(benchmark, found, Path.cwd())

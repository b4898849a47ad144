"""`K=V` arguments."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli.panels import COMPARISON, DATA
from schemas.errors import ConfigError, UnknownName
from schemas.night.caps import CAPS

if TYPE_CHECKING:
    from schemas.night.budget import Budget
    from schemas.night.decision import DecisionRule

BudgetCaps = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CAP=LIMIT",
        help=f"Stop at usd=5,hours=2 or the like; may be repeated. Caps: {', '.join(CAPS)}.",
    ),
]
Decide = Annotated[
    str | None,
    typer.Option(
        metavar="baseline=…,…",
        help="Stop asking once better, worse or equivalent to a baseline: baseline=MODEL|RUN|predecessor[,margin=0.03,alpha=0.05,"
        "metric=NAME…]. `off`, the default, asks all.",
        rich_help_panel=COMPARISON,
    ),
]
Resources = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="Something that the data need beside them, such as repos=DIR or images=swebench; may be repeated.",
        rich_help_panel=DATA,
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
            raise ConfigError(
                f"--budget {item!r} is not of the form CAP=LIMIT, such as usd=5; caps: {', '.join(CAPS)}"
            )
        if name in caps:
            raise ConfigError(f"--budget {name} is given twice: {caps[name]!r} and {value!r}")
        caps[name] = value
    if not caps:
        return stated
    return Budget.model_validate((stated.model_dump(exclude_none=True) if stated else {}) | caps)


def parse_decide(text: str | None) -> "DecisionRule | None":
    """`baseline=predecessor,margin=0.02,metric=a,metric=b` -> a rule; None for `off`.

    Raises:
        ConfigError: no baseline, an unknown key, or one given twice.
        ValidationError: no number where one is due.
    """
    from schemas.night.decision import DecisionRule

    if text is None or text == "off":
        return None
    fields: dict[str, str] = {}
    names: list[str] = []
    for item in (part.strip() for part in text.split(",")):
        name, equals, value = item.partition("=")
        if not equals or name not in ("baseline", "margin", "alpha", "metric"):
            raise ConfigError(
                f"--decide {item!r} is not one of baseline=MODEL|RUN|predecessor, margin=, alpha=, metric=; or `off`"
            )
        if name in fields:
            raise ConfigError(f"--decide {name} is given twice: {fields[name]!r} and {value!r}")
        if name == "metric":
            names.append(value)
        else:
            fields[name] = value
    if "baseline" not in fields:
        raise ConfigError(
            "--decide needs baseline=MODEL|RUN|predecessor: a decision is against something"
        )
    return DecisionRule.model_validate({**fields, "metrics": names})


def parse_refused(text: str) -> Literal["failed", "unscored"]:
    """Read `--refused`.

    Raises:
        UnknownName: neither `failed` nor `unscored`.
    """
    if text not in ("failed", "unscored"):
        raise UnknownName("way to score refusals", text, ("failed", "unscored"))
    return text


def parse_options(
    given: Iterable[str], flag: str = "--option", form: str = "NAME=VALUE"
) -> dict[str, str]:
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

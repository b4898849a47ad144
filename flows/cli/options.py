"""Options of the command line: their panels, those of the form `KEY=VALUE`, and their parsers."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer._click.core import Context
from typer._click.formatting import HelpFormatter
from typer.core import TyperCommand

from schemas.errors import ConfigError, ParleyError, UnknownName
from schemas.night.caps import CAPS
from tasks.storage.home import find_home

if TYPE_CHECKING:
    from schemas.night.budget import Budget
    from schemas.night.decision import DecisionRule

ARGUMENTS, OPTIONS = "Arguments", "Options"
"""Typer's names of its default panels.

`Options` is the first panel. It holds the common options, for which no panel is set.
"""
ENDPOINT, COMPARISON = "Subject's endpoint", "Comparison"
endpoint_option = partial(typer.Option, rich_help_panel=ENDPOINT)
comparison_option = partial(typer.Option, rich_help_panel=COMPARISON)
data_option = partial(typer.Option, rich_help_panel="Data")
embedder_option = partial(typer.Option, rich_help_panel="Embedder")
endpoints_option = partial(typer.Option, rich_help_panel="Model endpoints")
execution_option = partial(typer.Option, rich_help_panel="Execution")
layout_option = partial(typer.Option, rich_help_panel="Builds that write files of repositories")
quality_option = partial(typer.Option, rich_help_panel="Quality checks")


class PanelCommand(TyperCommand):
    """Command whose help is grouped in panels.

    In a pipe the help is plain, without importing rich.
    """

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the help text."""
        if not sys.stdout.isatty():
            super().format_help(ctx, formatter)
            return
        from typer import rich_utils

        # Markdown mode, because help texts contain square brackets, which rich reads as markup.
        rich_utils.rich_format_help(obj=self, ctx=ctx, markup_mode="markdown")

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the arguments and options, panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], OPTIONS: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                default = ARGUMENTS if parameter.param_type_name == "argument" else OPTIONS
                panel = getattr(parameter, "rich_help_panel", None) or default
                panels.setdefault(panel, []).append(record)
        for name, records in panels.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Return a function that completes the names of one kind.

    Args:
        kind: a kind that `parley list` accepts.
    """

    def complete(incomplete: str) -> list[str]:
        from flows.text.listings import listing

        try:
            _, rows = listing(find_home(), kind)
        except (ParleyError, OSError):  # completion cannot show an error
            return []
        return sorted({name for name, *_ in rows if name.startswith(incomplete)})

    return complete


BudgetCaps = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CAP=LIMIT",
        help="Stop when a cap is reached, for example usd=5,hours=2. Repeatable. Caps:"
        f" {', '.join(CAPS)}.",
    ),
]
Decide = Annotated[
    str | None,
    comparison_option(
        metavar="baseline=…,…",
        help="Stop the run early once it is better than, worse than or equivalent to a baseline."
        " Keys: baseline=MODEL|RUN|predecessor, margin=0.03, alpha=0.05, metric=NAME."
        " Default: `off`, play all problems. See `parley help decide`.",
    ),
]
DatasetVersion = Annotated[
    str | None, typer.Option(help="Version of the data. `sample` is bundled with Parley.")
]
Resources = Annotated[
    list[str] | None,
    data_option(
        metavar="NAME=PATH",
        help="Extra files or images that the data need, for example repos=DIR or images=swebench."
        " Repeatable.",
    ),
]


def parse_budget(arguments: Iterable[str], base: "Budget | None" = None) -> "Budget | None":
    """Parse a budget from arguments such as `["usd=5,hours=2", "tokens=1000000"]`.

    Args:
        arguments: texts of `--budget`.
        base: the configuration's budget, whose caps the arguments override.

    Returns:
        The budget. None if there are neither arguments nor a base.

    Raises:
        ConfigError: an argument has no `=`, or a cap occurs twice.
        ValidationError: a cap does not exist, or its limit is not a number above 0.
    """
    from schemas.night.budget import Budget

    items = [part.strip() for text in arguments for part in text.split(",")]
    items = [f"wall_{item}" if item.startswith("hours=") else item for item in items]
    form = f"CAP=LIMIT, for example usd=5. Caps: {', '.join(CAPS)}"
    caps = parse_options(items, "--budget", form)
    if not caps:
        return base
    return Budget.model_validate((base.model_dump(exclude_none=True) if base else {}) | caps)


def parse_decide(text: str | None) -> "DecisionRule | None":
    """Parse a decision rule such as `baseline=predecessor,margin=0.02,metric=a,metric=b`.

    Returns:
        The rule. None for `off`.

    Raises:
        ConfigError: the baseline is missing, a key is unknown, or a key occurs twice.
        ValidationError: the margin or alpha is not a number.
    """
    from schemas.night.decision import DecisionRule

    if text is None or text == "off":
        return None
    items = [part.strip() for part in text.split(",")]
    for item in items:
        name, equals, _ = item.partition("=")
        if not equals or name not in ("baseline", "margin", "alpha", "metric"):
            raise ConfigError(
                f"--decide {item!r}: expected baseline=MODEL|RUN|predecessor, margin=NUMBER,"
                " alpha=NUMBER, metric=NAME, or `off`"
            )
    names = [item.removeprefix("metric=") for item in items if item.startswith("metric=")]
    fields = parse_options((i for i in items if not i.startswith("metric=")), "--decide")
    if "baseline" not in fields:
        raise ConfigError("--decide has no baseline. Add baseline=MODEL|RUN|predecessor")
    return DecisionRule.model_validate({**fields, "metrics": names})


def parse_refused(text: str) -> Literal["failed", "unscored"]:
    """Return the value of `--refused` after checking it.

    Raises:
        UnknownName: the text is neither `failed` nor `unscored`.
    """
    if text not in ("failed", "unscored"):
        raise UnknownName("way to score refusals", text, ("failed", "unscored"))
    return text


def parse_options(
    arguments: Iterable[str], flag: str = "--option", form: str = "NAME=VALUE"
) -> dict[str, str]:
    """Parse arguments such as `["a=1"]` into a map from name to value.

    Args:
        arguments: texts of the form `NAME=VALUE`.
        flag: the command's flag, for errors.
        form: the expected form, for errors.

    Raises:
        ConfigError: an argument has no `=`, or a name occurs twice.
    """
    options: dict[str, str] = {}
    for item in arguments:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag} {item!r} does not have the form {form}")
        if name in options:
            raise ConfigError(
                f"{flag} {name} occurs twice, as {options[name]!r} and {value!r}. Pass it once"
            )
        options[name] = value
    return options


def parse_resources(arguments: Iterable[str], benchmark: str) -> dict[str, str]:
    """Parse arguments such as `["repos=DIR"]` into a map from resource to value.

    Paths become absolute. Values that are names, such as `images=swebench`, stay unchanged.

    Raises:
        ConfigError: an argument has no `=`, or a name occurs twice.
    """
    resources = parse_options(arguments, "--resource")
    if not resources:
        return {}
    from tasks.planning.dataset import absolute_resources

    return absolute_resources(benchmark, resources, Path.cwd())

"""Options of commands: panels of help texts, and completion of names.

A panel groups options by topic. It is drawn by rich on a terminal, and is plain text elsewhere.
"""

import sys
from collections.abc import Callable
from functools import partial

import typer
from typer._click.core import Context
from typer._click.formatting import HelpFormatter
from typer.core import TyperCommand

from schemas.errors import ParleyError
from tasks.storage.home import find_home

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

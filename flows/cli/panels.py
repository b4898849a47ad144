"""Help texts in panels: options grouped by topic, drawn by rich on a terminal, plain elsewhere."""

import sys

from typer._click.core import Context
from typer._click.formatting import HelpFormatter
from typer.core import TyperCommand

ARGUMENTS, OPTIONS = "Arguments", "Options"
"""Typer's names of its default panels.

`Options` is the first panel. It holds the common options, for which no panel is set.
"""
ENDPOINT, ANSWERS, AGENT, SERVER = (
    "Subject's endpoint",
    "Subject's answers",
    "Subject's agent",
    "Subject's server",
)
EMBEDDER, DATA, EXECUTION = "Embedder", "Data", "Execution"
QUALITY, COMPARISON = "Quality checks", "Comparison"
ENDPOINTS, LAYOUT = "Model endpoints", "Builds that write files of repositories"


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
                panels.setdefault(
                    getattr(parameter, "rich_help_panel", None) or default, []
                ).append(record)
        for name, records in panels.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)

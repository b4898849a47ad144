"""Help in panels: the options of a command grouped by what they are about, drawn by rich on a terminal and plain elsewhere."""

import sys

from typer._click.core import Context
from typer._click.formatting import HelpFormatter
from typer.core import TyperCommand

ARGUMENTS, OPTIONS = "Arguments", "Options"
"""Typer's own names: `Options` has the options without a panel, the most common ones, and comes first."""
ENDPOINT, ANSWERS, AGENT, SERVER = (
    "Subject's endpoint",
    "Subject's answers",
    "Subject's agent",
    "Subject's server",
)
EMBEDDER, DATA, EXECUTION = "Embedder", "Data", "Execution"
QUALITY, COMPARISON = "Quality checks", "Comparison"


class PanelCommand(TyperCommand):
    """Command whose help is grouped. A pipe gets plain text, and rich is not imported for it."""

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the help."""
        if not sys.stdout.isatty():
            super().format_help(ctx, formatter)
            return
        from typer import rich_utils

        # Help texts have square brackets, which are markup to rich and nothing to Markdown.
        rich_utils.rich_format_help(obj=self, ctx=ctx, markup_mode="markdown")

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the parameters, panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], OPTIONS: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = ARGUMENTS if parameter.param_type_name == "argument" else OPTIONS
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(
                    record
                )
        for name, records in panels.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)

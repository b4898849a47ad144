"""The command `parley`: its subcommands, and the exit code of each error.

Heavy imports happen inside the commands, so that `parley --help` is fast.
"""

import os
import shlex
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer
from typer._click.exceptions import ClickException

from flows.cli.commands import data, datasets, nightly, read, upkeep
from flows.cli.commands.build import build
from flows.cli.commands.role_options import KEYS_HELP, with_role_options
from flows.cli.commands.run import run
from flows.cli.options import PanelCommand
from flows.orchestration.packages import verify_packages
from schemas.errors import ParleyError
from schemas.outside.display import plain_text
from tasks.driver.signals import INTERRUPTED, signals_end_cleanly
from tasks.storage.home import disk_full, find_home, is_full

app = typer.Typer(
    name="parley",
    help="Evaluate code LLMs in multi-turn conversations.",
    epilog="New here? Type `parley demo`, then `parley help tutorial`. Exit codes: 0 done,"
    " 1 failed, 2 wrong usage, 3 a quality check withheld a run,"
    " 4 a budget cap stopped the command, 5 an event of --fail-on occurred.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(nightly.demo)
app.command("run", cls=PanelCommand, epilog=KEYS_HELP)(with_role_options(run))
app.command("nightly")(nightly.nightly)
app.command("stage")(data.stage)
app.command("import")(data.import_data)
app.command("export")(data.export)
app.command("site")(data.site)
app.add_typer(datasets.data, name="data")
app.command("build", cls=PanelCommand)(build)
app.command("checkpoints")(nightly.checkpoints)
app.add_typer(upkeep.models, name="models")
app.command("show")(read.show)
app.command("sql")(read.sql)
app.command("list")(read.list_things)
app.command("report")(read.report)
app.command("why-rerun")(read.why_rerun)
app.command("agreement")(read.agreement)
app.command("compare")(read.compare)
app.command("help")(read.explain_topic)
app.command("publish")(upkeep.publish)
app.command("release")(upkeep.release)
app.add_typer(upkeep.server, name="server")
app.command("doctor")(upkeep.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        from tasks.planning.version import parley_version

        typer.echo(f"parley {parley_version()}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Evaluate code LLMs in multi-turn conversations."""


def main() -> None:
    """Run the command line. Each expected error becomes one message and an exit code."""
    with signals_end_cleanly(_print_how_to_resume):
        sys.exit(_run())


def _run() -> int:
    try:
        verify_packages()
        code = app(standalone_mode=False)
    except ParleyError as error:
        _print_error(f"parley: {error}")
        return error.exit_code
    except ClickException as error:
        error.show()
        return 2
    except ValueError as error:
        from pydantic import ValidationError

        from tasks.planning.validation_errors import explain

        if not isinstance(error, ValidationError):
            raise
        _print_error(f"parley: {explain(error)}")
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        _print_error(f"parley: {_os_error_text(error)}")
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _os_error_text(error: OSError) -> str:
    """Return the message for an operating-system error: problem, place and remedy.

    An error about a file names the file. An error about a program or an endpoint may have no text,
    so the message adds the place in the code that raised it.
    """
    if is_full(error):
        return str(disk_full("a file", find_home().path))
    if error.filename is not None:
        return f"{error}. Check the file's permissions"
    cause = f"{type(error).__name__}: {error}".removesuffix(": ")
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        "a program or an endpoint that this command needs did not answer, or closed the"
        f" connection ({cause}, in {place.name} of {Path(place.filename).name}). Finished work is"
        " stored: type the same command again to resume. If the error returns, read the logs in"
        f" {find_home().logs} and run `parley doctor`"
    )


def _print_how_to_resume() -> None:
    _print_error(
        "parley: stopped. Finished work is stored; resume with:"
        f" {shlex.join(['parley', *sys.argv[1:]])}"
    )


def _print_error(text: str) -> None:
    print(plain_text(text), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

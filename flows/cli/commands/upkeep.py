"""Commands of upkeep: publish, release, server, doctor."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.completion import names_of
from flows.text.reasons import in_three_lines
from schemas.errors import UsageError
from schemas.outside.display import plain_line, plain_text
from tasks.storage.home import find_home

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

server = typer.Typer(
    help="Start, stop or show this home's Prefect server.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(app: typer.Typer) -> None:
    """Register this module's commands."""
    app.command("publish")(publish)
    app.command("release")(release)
    app.add_typer(server, name="server")
    app.command("doctor")(doctor)


def publish(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the warehouse anew from Parquet alone.")
    ] = False,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Update the files of an older Parley first.")
    ] = False,
    set_aside: Annotated[
        bool,
        typer.Option(
            "--set-aside",
            help="With --migrate: move files aside that cannot be updated; the next run pays for their content again.",
        ),
    ] = False,
    json_output: Json = False,
) -> None:
    """Bring the warehouse up to date with the lake. Readers keep the old one until the new one is whole."""
    from tasks.planning.reporting.publishing import publish_to_warehouse

    if migrate:
        _migrate(set_aside)
    report = publish_to_warehouse(find_home(), rebuild=rebuild)
    if json_output:
        withheld = [{"run_id": one.run_id, "reason": one.reason} for one in report.withheld]
        counts = {"runs_loaded": report.n_runs_loaded, "rows": report.n_rows}
        print(json.dumps({"warehouse": str(report.path), **counts, "withheld": withheld}))
    else:
        print(
            f"{report.path}: {report.n_runs_loaded} runs loaded, {report.n_rows} rows, {report.seconds:.1f} s"
        )
    for one in report.withheld:
        print(
            in_three_lines(f"parley: run {one.run_id} is withheld: {one.reason}"), file=sys.stderr
        )
    if report.withheld:
        raise typer.Exit(3)


def release(
    run: Annotated[
        str,
        typer.Argument(
            help="A withheld run's id, or its beginning (`parley list runs`).",
            autocompletion=names_of("runs"),
        ),
    ],
    because: Annotated[
        str,
        typer.Option(
            help="Why the run's numbers may be read all the same; tables show the reason beside them."
        ),
    ],
    json_output: Json = False,
) -> None:
    """Publish a withheld run all the same, and keep the reason.

    The tables show the reason in `released_because`. A release holds for the run's results as they are: later results need
    another release. Exit code 3: the run's files are damaged or hold no scores, and the run stays withheld.
    """
    from tasks.planning.reporting.releasing import release as release_run

    done = release_run(find_home(), run, because)
    made = done.release
    if json_output:
        still = done.still_withheld_because
        print(
            json.dumps(
                {**made.model_dump(), "published": still is None, "still_withheld_because": still}
            )
        )
    else:
        state = (
            "published" if done.still_withheld_because is None else "released, but not published"
        )
        print(f"run {made.run_id[:12]}, {plain_line(made.model)} on {done.setting}: {state}")
        print(f"because: {plain_line(made.because, 500)}")
        print(in_three_lines(f"it was withheld: {made.withheld_reason}"))
    if done.still_withheld_because is not None:
        print(
            in_three_lines(f"parley: run {made.run_id} is withheld: {done.still_withheld_because}"),
            file=sys.stderr,
        )
        raise typer.Exit(3)


def _migrate(set_aside: bool) -> None:
    from tasks.storage.migration import SET_ASIDE, migrate_lake

    home = find_home()
    done = migrate_lake(home, set_aside=set_aside)
    print(f"{home.lake}: {done.n_upgraded} files brought up to date", file=sys.stderr)
    if done.n_set_aside:
        print(
            f"{home.path / SET_ASIDE}: {done.n_set_aside} files of older versions; `parley run` makes their content anew",
            file=sys.stderr,
        )
    for reason in done.stuck:
        print(f"parley: {plain_line(reason, 2000)}", file=sys.stderr)
    if done.stuck:
        raise UsageError(
            f"{len(done.stuck)} files cannot be brought up to date. Use the Parley that wrote them, or type"
            " `parley publish --migrate --set-aside`: it moves them away, and the next run pays for their content again"
        )


@server.command("start")
def start() -> None:
    """Start this home's Prefect server and leave it running."""
    from flows.orchestration.server import start_server

    found = start_server(find_home().path)
    print(
        f"Prefect server: {found.ui_url} (pid {found.pid})\nFor prefect's own commands: export PREFECT_API_URL={found.api_url}"
    )


@server.command("stop")
def stop(
    force: Annotated[
        bool, typer.Option("--force", help="End the server even while commands use it.")
    ] = False,
) -> None:
    """End this home's Prefect server."""
    from flows.orchestration.server import stop_server

    print(
        "stopped"
        if stop_server(find_home().path, force=force)
        else "no server of this home is running"
    )


@server.command("status")
def status(json_output: Json = False) -> None:
    """Say whether this home's Prefect server runs, and where."""
    from flows.orchestration.server import server_status

    found = server_status(find_home().path)
    if json_output:
        print(
            json.dumps(
                None
                if found is None
                else {"api_url": found.api_url, "ui_url": found.ui_url, "pid": found.pid}
            )
        )
    else:
        print("not running" if found is None else f"{found.ui_url} (pid {found.pid})")


def doctor(
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Run reference solutions, and widen limits of CPU time on a slow machine.",
        ),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="With --calibrate: folder of published references (JSONL); the bundled references if none is named."
        ),
    ] = None,
    sandbox: Annotated[
        str | None,
        typer.Option(
            help="With --calibrate: sandbox for the references; the default one if none is named."
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Check this installation, and say how to mend it. Exit code 1 if something is missing.

    Looks at packages, sandbox, home, server, embedded model and Docker.
    """
    from dataclasses import asdict

    if calibrate:
        _calibrate(data, sandbox, json_output)
        return
    if data is not None or sandbox is not None:
        raise UsageError("--data and --sandbox belong to --calibrate")
    from flows.cli.doctor import examine

    findings = examine(find_home())
    if json_output:
        print(json.dumps([asdict(f) for f in findings]))
    else:
        from flows.text.results import print_rows

        marks = {True: "ok", False: "MISSING", None: "optional, missing"}
        print_rows(
            "", ("what", "state", "detail"), [(f.what, marks[f.ok], f.detail) for f in findings]
        )
    if any(f.ok is False for f in findings):
        raise typer.Exit(1)


def _calibrate(data: Path | None, sandbox: str | None, json_output: bool) -> None:
    from dataclasses import asdict

    from flows.cli.calibrating import calibrate, calibrated_text
    from sandbox.registry import default_name

    done = calibrate(find_home(), sandbox or default_name(), data)
    if json_output:
        print(
            json.dumps({**asdict(done.measured), "factor": done.kept.factor if done.kept else None})
        )
    else:
        print(plain_text(calibrated_text(done)))
    if done.kept is None:
        raise typer.Exit(1)

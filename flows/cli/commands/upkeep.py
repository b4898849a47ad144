"""Maintenance commands: publish, release, server, doctor, and the test of an endpoint."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import names_of, parse_options
from schemas.errors import UsageError
from schemas.outside.display import in_three_lines, plain_line, plain_text
from tasks.storage.home import find_home

if TYPE_CHECKING:
    from tasks.language.probing import EndpointReport

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

server = typer.Typer(
    help="Start, stop or show the Prefect server of Parley's home.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def publish(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the whole warehouse from the Parquet files.")
    ] = False,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="First convert files that an older Parley wrote.")
    ] = False,
    set_aside: Annotated[
        bool,
        typer.Option(
            "--set-aside",
            help="With --migrate: move files that cannot be converted aside. The next run pays for"
            " their content again.",
        ),
    ] = False,
    json_output: Json = False,
) -> None:
    """Update the warehouse from the lake.

    Readers use the old warehouse until the new one is complete.
    """
    from tasks.planning.reporting.publishing import publish_to_warehouse

    if migrate:
        _migrate(set_aside)
    report = publish_to_warehouse(find_home(), rebuild=rebuild)
    if json_output:
        withheld = [{"run_id": run.run_id, "reason": run.reason} for run in report.withheld]
        counts = {"runs_loaded": report.n_runs_loaded, "rows": report.n_rows}
        print(json.dumps({"warehouse": str(report.path), **counts, "withheld": withheld}))
    else:
        print(
            f"{report.path}: {report.n_runs_loaded} runs loaded, {report.n_rows} rows,"
            f" {report.seconds:.1f} s"
        )
    for run in report.withheld:
        line = f"parley: run {run.run_id} is withheld (results not published): {run.reason}"
        print(in_three_lines(line), file=sys.stderr)
    if report.withheld:
        raise typer.Exit(3)


def release(
    run: Annotated[
        str,
        typer.Argument(
            help="Withheld run: an id, or its first characters (`parley list runs`).",
            autocompletion=names_of("runs"),
        ),
    ],
    because: Annotated[
        str,
        typer.Option(
            help="Reason why the results are valid nevertheless. Tables show it beside the results."
        ),
    ],
    json_output: Json = False,
) -> None:
    """Publish a withheld run, with a reason.

    The tables show the reason in `released_because`. A release applies to the run's present
    results; later results need another release. Exit code 3: the run's files are damaged or hold no
    scores, so the run stays withheld.
    """
    from tasks.planning.reporting.publishing import release as release_run

    outcome = release_run(find_home(), run, because)
    record, still = outcome.release, outcome.still_withheld_because
    if json_output:
        state = {"published": still is None, "still_withheld_because": still}
        print(json.dumps(record.model_dump() | state))
    else:
        state = "published" if still is None else "released, but not published"
        print(f"run {record.run_id[:12]}, {plain_line(record.model)} on {outcome.setting}: {state}")
        print(f"because: {plain_line(record.because, 500)}")
        print(in_three_lines(f"it was withheld because: {record.withheld_reason}"))
    if still is not None:
        line = f"parley: run {record.run_id} is still withheld (results not published): {still}"
        print(in_three_lines(line), file=sys.stderr)
        raise typer.Exit(3)


def _migrate(set_aside: bool) -> None:
    from tasks.storage.migration import SET_ASIDE, migrate_lake

    home = find_home()
    outcome = migrate_lake(home, set_aside=set_aside)
    print(f"{home.lake}: {outcome.n_upgraded} files converted", file=sys.stderr)
    if outcome.n_set_aside:
        print(
            f"{home.path / SET_ASIDE}: {outcome.n_set_aside} files of older versions moved here;"
            " `parley run` computes their content again",
            file=sys.stderr,
        )
    for reason in outcome.stuck:
        print(f"parley: {plain_line(reason, 2000)}", file=sys.stderr)
    if outcome.stuck:
        raise UsageError(
            f"{len(outcome.stuck)} files cannot be converted. Use the version of Parley that"
            " wrote them, or type `parley publish --migrate --set-aside`: it moves them aside,"
            " and the next run pays for their content again"
        )


@server.command("start")
def start() -> None:
    """Start the Prefect server of Parley's home, and leave it running."""
    from flows.orchestration.server import start_server

    record = start_server(find_home().path)
    print(f"Prefect server: {record.ui_url} (pid {record.pid})")
    print(f"To use the `prefect` command with it: export PREFECT_API_URL={record.api_url}")


@server.command("stop")
def stop(
    force: Annotated[
        bool, typer.Option("--force", help="Stop the server even if commands are using it.")
    ] = False,
) -> None:
    """Stop the Prefect server of Parley's home."""
    from flows.orchestration.server import stop_server

    print(
        "stopped"
        if stop_server(find_home().path, force=force)
        else "no Prefect server of this home is running"
    )


@server.command("status")
def status(json_output: Json = False) -> None:
    """Print the address of the home's Prefect server, or that it is not running."""
    from flows.orchestration.server import server_status

    record = server_status(find_home().path)
    if json_output:
        names = ("api_url", "ui_url", "pid")
        print(json.dumps(record and {name: getattr(record, name) for name in names}))
    else:
        text = "not running" if record is None else f"{record.ui_url} (pid {record.pid})"
        print(f"Prefect server: {text}")


def doctor(
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Run reference solutions, and raise the CPU time limits on a slow machine.",
        ),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="With --calibrate: folder of published reference solutions (JSONL). Default: the"
            " bundled ones."
        ),
    ] = None,
    sandbox: Annotated[
        str | None,
        typer.Option(
            help="With --calibrate: sandbox that runs the reference solutions. Default: the"
            " default sandbox."
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Check this installation, and print how to fix problems.

    Checks packages, sandbox, home, server, embedded model and Docker. Exit code 1: something
    required is missing.
    """
    from dataclasses import asdict

    if calibrate:
        _calibrate(data, sandbox, json_output)
        return
    if data is not None or sandbox is not None:
        raise UsageError(
            "--data and --sandbox have no effect without --calibrate. Add it, or remove them"
        )
    from flows.cli.doctor import examine

    findings = list(examine(find_home()))
    if json_output:
        print(json.dumps([asdict(f) for f in findings]))
    else:
        from flows.text.records import print_rows

        marks = {True: "ok", False: "MISSING", None: "optional, missing"}
        print_rows(
            "", ("check", "state", "detail"), [(f.what, marks[f.ok], f.detail) for f in findings]
        )
    if any(f.ok is False for f in findings):
        raise typer.Exit(1)


def _calibrate(data: Path | None, sandbox: str | None, json_output: bool) -> None:
    from dataclasses import asdict

    from flows.cli.doctor import calibrate, calibrated_text
    from sandbox.registry import default_name

    result = calibrate(find_home(), sandbox or default_name(), data)
    if json_output:
        factor = result.calibration.factor if result.calibration else None
        print(json.dumps({**asdict(result.measured), "factor": factor}))
    else:
        print(plain_text(calibrated_text(result)))
    if result.calibration is None:
        raise typer.Exit(1)


models = typer.Typer(help="Test what an endpoint supports.", no_args_is_help=True)


@models.callback()
def root() -> None:
    """Test what an endpoint supports."""


@models.command("test")
def print_profile(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="openai:MODEL[@BASE_URL]")],
    key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the endpoint's API key.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ENV_VARIABLE",
            help="Add a header to each request; its value comes from an environment variable."
            " Repeatable.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Test this profile instead of detecting one."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> None:
    """Send six test requests, and print the endpoint's profile.

    The profile contains the parameters and message forms that the endpoint accepts.
    """
    import asyncio

    from tasks.language.probing import probe_endpoint
    from tasks.planning.participants.access import choose
    from tasks.planning.request import ModelRequest

    headers = parse_options(header or [], "--header", "NAME=ENV_VARIABLE")
    request = ModelRequest(spec=spec, key_env=key_env, headers=headers, profile=profile)
    report = asyncio.run(probe_endpoint(choose(request, None, concurrency=1)))
    if json_output:
        typer.echo(report.model_dump_json(indent=1))
    else:
        _print(report)


def _print(report: "EndpointReport") -> None:
    from flows.text.records import print_rows

    profile = report.profile
    thoughts = "yes, hidden" if report.thinks else "no"
    if profile.thoughts:
        thoughts = f"yes, in {', '.join(profile.thoughts)}"
    equal_roles = (
        "unknown, because the endpoint has no system role"
        if report.takes_equal_roles is None
        else _yes(report.takes_equal_roles)
    )
    tools = "no; Parley describes tools in the messages"
    if profile.takes_tools:
        tools = _yes(report.calls_tools)
    schema = _yes(report.fits_schema) if profile.takes_schema else "no; Parley sends no schema"
    speed = "unknown" if report.tokens_per_second is None else f"{report.tokens_per_second:g}"
    rows = [
        ("thinks", thoughts),
        ("system role", _yes(report.takes_system_role)),
        ("consecutive messages of one role", equal_roles),
        ("messages", "merged" if profile.messages == "merged" else "native"),
        ("tools", tools),
        ("answer schema", schema),
        ("parameters", ", ".join(report.parameters)),
        ("refused parameters", ", ".join(profile.refused) or "none"),
        ("tokens a second", speed),
    ]
    print_rows(f"{report.model} at {report.url}", ("property", "value"), rows)
    questions = [
        (q.name, q.answer or q.refusal, q.n_calls, q.seconds and round(q.seconds, 2))
        for q in report.questions
    ]
    print_rows("Questions", ("question", "answer", "requests", "seconds"), questions)


def _yes(value: bool) -> str:
    return "yes" if value else "no"

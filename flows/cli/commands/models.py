"""`parley models test`: capabilities of an endpoint."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands.key_values import parse_options

if TYPE_CHECKING:
    from tasks.language.probing import EndpointReport

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
    from flows.text.results import print_rows

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

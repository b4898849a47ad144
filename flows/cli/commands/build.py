"""The command that makes data, from finished runs or by model calls and programs: build."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands.key_values import BudgetCaps, parse_budget, parse_options, parse_resources
from flows.cli.commands.run import EMBEDDER_HELP, MODEL_HELP
from schemas.errors import (
    BudgetSpent,
    ConfigError,
    InfraError,
    ParleyError,
    UnknownName,
    UsageError,
)
from schemas.outside.display import plain_line
from tasks.storage.home import find_home

if TYPE_CHECKING:
    from schemas.night.budget import Budget
    from tasks.planning.builds.build_report import BuildReport
    from tasks.planning.request import BuildRequest

Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
LOGS = Path("logs")
CHECKOUT = "OWNER/NAME=PATH"


def add_to(app: typer.Typer) -> None:
    """Register this module's command."""
    app.command("build")(build)


def build(
    what: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK-WHAT", help="Name of a build; all: `parley list builds`."
        ),
    ],
    run: Annotated[
        list[str] | None, typer.Option(help="A run's id, or its beginning; may be repeated.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ROLE=]SPEC",
            help="For files from runs: a model's name; its latest finished run of each setting counts. For a dataset: a model to"
            f" ask, {MODEL_HELP}; its role is `model` if none is named; may be repeated.",
        ),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Like --model judge=SPEC.")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help=f"Makes vectors of texts: {EMBEDDER_HELP}")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="File or folder of raw data; the data staged before if none is named."),
    ] = None,
    dataset_version: Annotated[
        str | None, typer.Option(help="Version of the data; `sample` comes with Parley.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="An option of the build; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Begin with the first N problems only; a later build may take more."
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Requests in flight to each endpoint.")
    ] = 64,
    sandbox: Annotated[
        str | None, typer.Option(help="Sandbox for programs, see `parley doctor`.")
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(help="Name of the variable that holds the key, for all but the judge."),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(help="Name of the weights behind the endpoint, for all but the judge."),
    ] = None,
    judge_key_env: Annotated[
        str | None, typer.Option(help="Like --key-env, for the judge.")
    ] = None,
    judge_revision: Annotated[
        str | None, typer.Option(help="Like --revision, for the judge.")
    ] = None,
    embedder_key_env: Annotated[
        str | None, typer.Option(help="Like --key-env, for the embedder.")
    ] = None,
    embedder_revision: Annotated[
        str | None, typer.Option(help="Like --revision, for the embedder.")
    ] = None,
    patience_s: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for an endpoint that stopped answering.")
    ] = 300.0,
    budget: BudgetCaps = None,
    checkout: Annotated[
        list[str] | None,
        typer.Option(
            metavar=CHECKOUT,
            help="For files laid out: a git checkout of the repository OWNER/NAME; may be repeated.",
        ),
    ] = None,
    fetch: Annotated[
        bool,
        typer.Option(
            "--fetch",
            help="For files laid out: get other projects from their public git repositories.",
        ),
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="For files laid out: one project; may be repeated.")
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATH",
            help="Files that a dataset's rows need beside them. For files laid out: projects=FILE, a list of your own.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to make; `logs` for files from runs if none is named."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files of an earlier build in the folder.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the calls of each role; start nothing.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Make files from finished runs, or a dataset by model calls. After a stop, type the same again: the build goes on."""
    from tasks.benchmarks.known_builds import builds, constructions, layouts

    if what in layouts():
        if (
            any(
                (
                    run,
                    model,
                    judge,
                    embedder,
                    data,
                    dataset_version,
                    option,
                    limit,
                    dry_run,
                    force,
                    budget,
                )
            )
            or out is None
        ):
            raise ConfigError(
                f"{what} is laid out in a folder: name the folder by --out. Only --checkout, --only and --resource go with it,"
                " and --fetch"
            )
        checkouts = parse_options(checkout or [], "--checkout", CHECKOUT)
        places = parse_options(resource or [], "--resource", "NAME=PATH")
        _lay_out(what, out, checkouts, only or (), places, fetch, json_output)
        return
    if checkout or only or fetch:
        raise ConfigError(
            f"--checkout, --only and --fetch belong to builds that lay files out ({', '.join(layouts())}), not to {what}"
        )
    if what in builds():
        if (
            any((judge, embedder, data, dataset_version, option, limit, dry_run, budget, resource))
            or len(model or ()) > 1
        ):
            raise ConfigError(
                f"{what} is made from runs: name the runs by --run, or one --model. Only --out and --force go with them"
            )
        _from_runs(what, run or (), model[0] if model else None, out or LOGS, force, json_output)
        return
    if what not in constructions():
        raise UnknownName(
            "build",
            what,
            sorted((*builds(), *constructions(), *layouts())),
            "`parley list builds` shows them",
        )
    if run:
        raise ConfigError(
            f"{what} is made by model calls, not from runs: leave --run out, and name its models by --model"
        )
    if out is None and not dry_run:
        raise ConfigError(f"{what} makes a folder of files: name the folder by --out DIR")
    from sandbox.registry import default_name
    from tasks.planning.request import BuildRequest, ModelRequest

    def asked(role: str, spec: str) -> ModelRequest:
        key, named = {
            "judge": (judge_key_env, judge_revision),
            "embedder": (embedder_key_env, embedder_revision),
        }.get(role, (key_env, revision))
        return ModelRequest(spec=spec, key_env=key, revision=named, patience_s=patience_s)

    specs = _role_specs([*(model or []), *([f"judge={judge}"] if judge else [])])
    request = BuildRequest(
        what=what,
        roles={role: asked(role, spec) for role, spec in specs.items()},
        embedder=asked("embedder", embedder) if embedder else None,
        data=data,
        dataset_version=dataset_version,
        options=parse_options(option or []),
        limit=limit,
        resources=parse_resources(resource or [], what.partition("-")[0]),
        concurrency=concurrency,
        sandbox=sandbox or default_name(),
        out=str((out or Path()).absolute()),
        replace=force,
    )
    caps = parse_budget(budget or [])
    if caps and (refused := caps.caps.keys() & {"usd", "gpu_hours"}):
        raise ConfigError(
            f"parley build keeps no cap on {', '.join(sorted(refused))}: it knows no prices. Cap tokens or hours"
        )
    if caps and caps.then != "stop":
        raise ConfigError(
            f"--budget then={caps.then}: parley build makes all files or none. Take fewer problems by --limit"
        )
    if dry_run:
        _estimate(request, json_output)
    else:
        _make(request, caps, json_output)


def _role_specs(given: Sequence[str]) -> dict[str, str]:
    """`[ROLE=]SPEC` arguments -> role -> spec.

    Raises:
        ConfigError: two models for one role.
    """
    specs: dict[str, str] = {}
    for text in given:
        before, equals, rest = text.partition("=")
        role, spec = (before, rest) if equals and ":" not in before else ("model", text)
        if role in specs:
            raise ConfigError(
                f"two models are named for the role {role!r}: {specs[role]} and {spec}"
            )
        specs[role] = spec
    return specs


def _from_runs(
    what: str, runs: Sequence[str], model: str | None, out: Path, force: bool, json_output: bool
) -> None:
    from flows.cli.exports.building import build as build_files

    told = build_files(find_home(), what, runs, model, out, replace=force)
    if json_output:
        print(json.dumps({"out": str(out), "built": told}))
        return
    for line in told:
        print(line)
    print(f"in {out}")


def _lay_out(
    what: str,
    out: Path,
    checkouts: dict[str, str],
    only: Sequence[str],
    resources: dict[str, str],
    fetch: bool,
    json_output: bool,
) -> None:
    from tasks.benchmarks.known_builds import layouts

    layout = layouts()[what]
    for name in resources.keys() - {layout.listing}:
        raise UnknownName("resource", name, (layout.listing,), of=what)
    places = {name: Path(path).absolute() for name, path in checkouts.items()}
    listing = Path(resources[layout.listing]).absolute() if resources else None
    told = [
        *layout.lay_out(
            out.absolute(),
            places,
            only,
            lambda name: print(f"{name} …", file=sys.stderr),
            listing,
            fetch,
        )
    ]
    told += _environments(what, out.absolute())
    if json_output:
        print(json.dumps({"out": str(out), "built": list(told)}))
    else:
        print("\n".join((*told, f"in {out}")))
    if any(": FAILED: " in line for line in told):
        raise ParleyError(
            "some files could not be laid out, see FAILED above; type the same command again to go on with them"
        )


def _environments(what: str, out: Path) -> list[str]:
    """Run the tasks' own tests in what was laid out, and return a line for each fault."""
    from sandbox.registry import default_name
    from tasks.benchmarks.known_builds import layouts
    from tasks.benchmarks.registry import BENCHMARKS
    from tasks.planning.dataset import furnished_data
    from tasks.planning.environment_check import environment_lines

    benchmark = BENCHMARKS.load(what.partition("-")[0])
    version, resources = benchmark.data.default_version, {layouts()[what].resource: str(out)}
    if not out.is_dir():
        return []
    try:
        staged = furnished_data(benchmark, None, version, find_home(), resources, default_name())
    except UsageError:
        return [
            f"not checked, since no tasks are staged: parley stage {benchmark.name} --data DIR, then this command again"
        ]
    n_whole = sum(dialog.tree is not None and not dialog.is_sourceless for dialog in staged.dialogs)
    return [f"{n_whole} tasks pass their own tests here", *environment_lines(staged.dialogs)]


def _make(request: "BuildRequest", budget: "Budget | None", json_output: bool) -> None:
    from flows.night.invocation import run_build
    from flows.night.reporting.progress import board_for_terminal

    board = board_for_terminal(quiet=json_output)
    try:
        with board.live():
            report = run_build(find_home(), request, board, budget)
    except (InfraError, BudgetSpent) as error:
        again = shlex.join(["parley", *sys.argv[1:]])
        kind = BudgetSpent if isinstance(error, BudgetSpent) else ParleyError
        raise kind(f"{error}\nparley: all answers are kept; go on with: {again}") from error
    _print(report, json_output)
    if not json_output:
        print(f"programs: {report.programs_run} run, {report.programs_reused} known")
        print(f"{', '.join(report.files)}\nin {report.out}")
        print(f"to be reviewed: {report.n_review_rows} rows of {report.review}")


def _estimate(request: "BuildRequest", json_output: bool) -> None:
    from tasks.planning.builds.build_plan import plan_build
    from tasks.planning.builds.build_report import dry_report

    _print(dry_report(plan_build(request, find_home())), json_output)


def _print(report: "BuildReport", json_output: bool) -> None:
    if json_output:
        print(report.model_dump_json())
        return
    from flows.text.results import print_rows

    columns = ("role", "model", "estimated calls", "asked now", "known")
    rows = [
        (call.role, plain_line(call.model), call.estimated, call.asked, call.reused)
        for call in report.calls
    ]
    print_rows(report.what, columns, rows)

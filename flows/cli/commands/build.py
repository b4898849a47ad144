"""`parley build`: files from finished runs, or datasets from model calls and programs."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands.run import EMBEDDER_HELP, MODEL_HELP
from flows.cli.options import (
    BudgetCaps,
    DatasetVersion,
    endpoints_option,
    execution_option,
    layout_option,
    parse_budget,
    parse_options,
    parse_resources,
)
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
    from tasks.planning.builds.built_folder import BuildReport
    from tasks.planning.request import BuildRequest

Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
CHECKOUT = "OWNER/NAME=PATH"


def build(
    build_name: Annotated[
        str,
        typer.Argument(metavar="BUILD", help="Name of a build; `parley list builds` shows all."),
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(help="Build from this run: an id, or its first characters. Repeatable."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ROLE=]SPEC",
            help="Build from the latest finished run of each setting of this model. For a dataset:"
            " the model to call for a role (default role: `model`). Repeatable. SPEC:"
            f" {MODEL_HELP}",
        ),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Short for --model judge=SPEC.")
    ] = None,
    embedder: Annotated[
        str | None, endpoints_option(help=f"Model that embeds texts: {EMBEDDER_HELP}")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="File or folder of raw data. Default: the data staged earlier."),
    ] = None,
    dataset_version: DatasetVersion = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V", help="Set an option of the build (`parley list builds`). Repeatable."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Use only the first N problems. A later build can use more."),
    ] = None,
    concurrency: Annotated[
        int, execution_option(min=1, help="Maximum number of requests in flight to each endpoint.")
    ] = 64,
    sandbox: Annotated[
        str | None,
        execution_option(help="Sandbox that runs programs. `parley list sandboxes` shows all."),
    ] = None,
    key_env: Annotated[
        str | None,
        endpoints_option(
            help="Environment variable with the API key of all models except judge and embedder."
        ),
    ] = None,
    revision: Annotated[
        str | None,
        endpoints_option(
            help="Name of the weights behind the endpoint, for all models except judge and"
            " embedder."
        ),
    ] = None,
    judge_key_env: Annotated[
        str | None, endpoints_option(help="Like --key-env, for the judge.")
    ] = None,
    judge_revision: Annotated[
        str | None, endpoints_option(help="Like --revision, for the judge.")
    ] = None,
    embedder_key_env: Annotated[
        str | None, endpoints_option(help="Like --key-env, for the embedder.")
    ] = None,
    embedder_revision: Annotated[
        str | None, endpoints_option(help="Like --revision, for the embedder.")
    ] = None,
    patience_s: Annotated[
        float,
        endpoints_option(min=0, help="Seconds to wait for an endpoint that stopped answering."),
    ] = 300.0,
    budget: BudgetCaps = None,
    checkout: Annotated[
        list[str] | None,
        layout_option(
            metavar=CHECKOUT, help="Use this git checkout of the repository OWNER/NAME. Repeatable."
        ),
    ] = None,
    fetch: Annotated[
        bool,
        layout_option(
            "--fetch",
            help="Download projects without a --checkout from their public git repositories.",
        ),
    ] = False,
    only: Annotated[
        list[str] | None, layout_option(help="Write only the files of this project. Repeatable.")
    ] = None,
    resource: Annotated[
        list[str] | None,
        layout_option(
            metavar="NAME=PATH",
            help="Extra files that the dataset's rows need. projects=FILE: JSON file with your own"
            " projects, whose files are then written, too.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write. Default for files from runs: `logs`.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files of an earlier build in the folder.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the number of model calls of each role. Start nothing."
        ),
    ] = False,
    json_output: Json = False,
) -> None:
    """Build files from finished runs, or a dataset by model calls.

    If the command is interrupted, type it again to resume.
    """
    from tasks.benchmarks.registry import builds, constructions, layouts

    of_models = (judge, embedder, data, dataset_version, option, limit, dry_run, budget)
    if build_name in layouts():
        if any((run, model, force, *of_models)) or out is None:
            raise ConfigError(
                f"{build_name} writes the files of repositories to a folder. It needs --out DIR,"
                " and accepts no other options than --checkout, --fetch, --only, --resource and"
                " --json"
            )
        checkouts = parse_options(checkout or [], "--checkout", CHECKOUT)
        places = parse_options(resource or [], "--resource", "NAME=PATH")
        _lay_out(build_name, out, checkouts, only or (), places, fetch, json_output)
        return
    if checkout or only or fetch:
        raise ConfigError(
            f"{build_name} does not write the files of repositories, so --checkout, --only and"
            f" --fetch have no effect. Remove them, or choose one of {', '.join(layouts())}"
        )
    if build_name in builds():
        if any((resource, *of_models)) or len(model or ()) > 1:
            raise ConfigError(
                f"{build_name} is built from finished runs. It needs --run or one --model, and"
                " accepts no other options than --out, --force and --json"
            )
        from flows.cli.exports.stored_run import build as build_files

        folder, of_model = out or Path("logs"), model[0] if model else None
        lines = build_files(find_home(), build_name, run or (), of_model, folder, replace=force)
        _print_built(lines, folder, json_output)
        return
    if build_name not in constructions():
        raise UnknownName(
            "build",
            build_name,
            sorted((*builds(), *constructions(), *layouts())),
            "`parley list builds` shows them",
        )
    if run:
        raise ConfigError(
            f"{build_name} is built by model calls, so --run has no effect. Remove it, and pass the"
            " models with --model"
        )
    if out is None and not dry_run:
        raise ConfigError(f"{build_name} writes a folder of files. Pass the folder with --out DIR")
    from sandbox.registry import default_name
    from tasks.planning.request import BuildRequest, ModelRequest

    def model_request(role: str, spec: str) -> ModelRequest:
        key, weights = {
            "judge": (judge_key_env, judge_revision),
            "embedder": (embedder_key_env, embedder_revision),
        }.get(role, (key_env, revision))
        return ModelRequest(spec=spec, key_env=key, revision=weights, patience_s=patience_s)

    specs = _role_specs([*(model or []), *([f"judge={judge}"] if judge else [])])
    request = BuildRequest(
        what=build_name,
        roles={role: model_request(role, spec) for role, spec in specs.items()},
        embedder=model_request("embedder", embedder) if embedder else None,
        data=data,
        dataset_version=dataset_version,
        options=parse_options(option or []),
        limit=limit,
        resources=parse_resources(resource or [], build_name.partition("-")[0]),
        concurrency=concurrency,
        sandbox=sandbox or default_name(),
        out=str((out or Path()).absolute()),
        replace=force,
    )
    caps = parse_budget(budget or [])
    if caps and (refused := caps.caps.keys() & {"usd", "gpu_hours"}):
        raise ConfigError(
            f"parley build cannot cap {', '.join(sorted(refused))}, because it takes no prices."
            " Cap tokens or hours instead"
        )
    if caps and caps.then != "stop":
        raise ConfigError(
            f"--budget then={caps.then} has no effect: parley build writes all files or none."
            " Remove it, or use fewer problems with --limit N"
        )
    if dry_run:
        from tasks.planning.builds.build_plan import plan_build
        from tasks.planning.builds.built_folder import dry_report

        _print(dry_report(plan_build(request, find_home())), json_output)
    else:
        _make(request, caps, json_output)


def _role_specs(arguments: Sequence[str]) -> dict[str, str]:
    """Return a map from role to spec, parsed from `[ROLE=]SPEC` arguments.

    Raises:
        ConfigError: one role has two models.
    """
    specs: dict[str, str] = {}
    for text in arguments:
        before, equals, rest = text.partition("=")
        role, spec = (before, rest) if equals and ":" not in before else ("model", text)
        if role in specs:
            raise ConfigError(
                f"the role {role!r} has two models: {specs[role]} and {spec}. Pass only one"
            )
        specs[role] = spec
    return specs


def _print_built(lines: Sequence[str], out: Path, json_output: bool) -> None:
    if json_output:
        print(json.dumps({"out": str(out), "built": lines}))
    else:
        print("\n".join((*lines, f"in {out}")))


def _lay_out(
    build_name: str,
    out: Path,
    checkouts: dict[str, str],
    only: Sequence[str],
    resources: dict[str, str],
    fetch: bool,
    json_output: bool,
) -> None:
    """Write the files of a build to a folder, run each task's tests on them, and print the result.

    Raises:
        UnknownName: the build has no such resource.
        ParleyError: some files could not be written.
    """
    from tasks.benchmarks.registry import layouts

    layout = layouts()[build_name]
    for name in resources.keys() - {layout.listing}:
        raise UnknownName("resource", name, (layout.listing,), of=build_name)
    places = {name: Path(path).absolute() for name, path in checkouts.items()}
    listing = Path(resources[layout.listing]).absolute() if resources else None
    lines = [
        *layout.lay_out(
            out.absolute(),
            places,
            only,
            lambda name: print(f"{name} …", file=sys.stderr),
            listing,
            fetch,
        )
    ]
    lines += _environments(build_name, out.absolute())
    _print_built(lines, out, json_output)
    if any(": FAILED: " in line for line in lines):
        raise ParleyError(
            "some files could not be written: see FAILED above. Type the same command again to"
            " retry them"
        )


def _environments(build_name: str, out: Path) -> list[str]:
    """Run each task's own tests on the files in `out`.

    Return a line with the number of tasks whose tests pass, then a line for each reason why tests
    fail.
    """
    from sandbox.registry import default_name
    from tasks.benchmarks.registry import BENCHMARKS, layouts
    from tasks.planning.dataset import resolved_data
    from tasks.planning.environment_check import environment_lines

    benchmark = BENCHMARKS.load(build_name.partition("-")[0])
    version, resources = benchmark.data.default_version, {layouts()[build_name].resource: str(out)}
    if not out.is_dir():
        return []
    try:
        staged = resolved_data(benchmark, None, version, find_home(), resources, default_name())
    except UsageError:
        return [
            f"not checked, because no tasks are staged. Run `parley stage {benchmark.name} --data"
            " DIR`, then this command again"
        ]
    n_whole = sum(dialog.tree is not None and not dialog.is_sourceless for dialog in staged.dialogs)
    return [f"{n_whole} tasks pass their own tests here", *environment_lines(staged.dialogs)]


def _make(request: "BuildRequest", budget: "Budget | None", json_output: bool) -> None:
    from flows.night.invocation import run_build
    from flows.night.reporting.live_lines import board_for_terminal

    board = board_for_terminal(quiet=json_output)
    try:
        with board.live():
            report = run_build(find_home(), request, board, budget)
    except (InfraError, BudgetSpent) as error:
        again = shlex.join(["parley", *sys.argv[1:]])
        kind = BudgetSpent if isinstance(error, BudgetSpent) else ParleyError
        raise kind(f"{error}\nparley: all answers are stored; resume with: {again}") from error
    _print(report, json_output)
    if not json_output:
        print(f"programs: {report.programs_run} run, {report.programs_reused} reused")
        print(f"{', '.join(report.files)}\nin {report.out}")
        print(f"for human review: {report.n_review_rows} rows of {report.review}")


def _print(report: "BuildReport", json_output: bool) -> None:
    if json_output:
        print(report.model_dump_json())
        return
    from flows.text.records import print_rows

    columns = ("role", "model", "estimated calls", "called now", "reused")
    rows = [
        (call.role, plain_line(call.model), call.estimated, call.asked, call.reused)
        for call in report.calls
    ]
    print_rows(report.what, columns, rows)

"""Commands that evaluate: run, nightly, demo."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.key_values import parse_options
from schemas.display import plain_line
from tasks.benchmarks.registry import FIRST, names
from tasks.storage.home import Home, find_home

if TYPE_CHECKING:
    from tasks.planning.report import RunReport
    from tasks.planning.request import EvaluationRequest, ModelRequest

MODEL_HELP = "embedded:smollm2 | openai:MODEL[@BASE_URL] | vllm:PATH_OR_REPO | recorded:FILE | control:gold | control:empty"

Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON instead of a table.")]


def add_to(app: typer.Typer) -> None:
    """Register this module's commands."""
    app.command("demo")(demo)
    app.command("run")(run)
    app.command("nightly")(nightly)


def demo(
    benchmark: Annotated[str | None, typer.Argument(help=f"One of {', '.join(names())}; {FIRST} where none is named.")] = None,
    json_output: Json = False,
) -> None:
    """Run the nightly flow on a bundled sample. It plays a small real model between two controls in minutes, offline."""
    from flows.night.config import demo_requests

    _finish(find_home(), demo_requests(benchmark), json_output, next_steps=True)


def run(
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCHMARK[.SETTING]", help=f"For example {FIRST}; all: `parley list benchmarks`.")
    ],
    model: Annotated[str, typer.Option(help=f"The model under test: {MODEL_HELP}")],
    simulator: Annotated[str | None, typer.Option(help="Model that plays the user, where a setting needs one.")] = None,
    simulator_key_env: Annotated[
        str | None,
        typer.Option(help="Like --key-env, for the simulator. The model's key, revision and price count if it plays both parts."),
    ] = None,
    simulator_revision: Annotated[str | None, typer.Option(help="Like --revision, for the simulator.")] = None,
    simulator_price: Annotated[
        tuple[float, float] | None, typer.Option(metavar="IN OUT", help="Like --price, for the simulator.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="Model that judges, where a metric needs one.")] = None,
    data: Annotated[str | None, typer.Option(help="File or folder of raw data. Without it, the data staged before.")] = None,
    dataset_version: Annotated[str | None, typer.Option(help="Version of the data; `sample` comes with Parley.")] = None,
    option: Annotated[list[str] | None, typer.Option(metavar="K=V", help="An option of the setting; may be repeated.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Play only the first N problems; a later run may play more.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Episodes of each dialogue, with seeds SEED, SEED+1, ...")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first sample.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Model requests in flight.")] = 64,
    workers: Annotated[int, typer.Option(min=1, help="Dask worker processes.")] = 2,
    sandbox: Annotated[
        str | None,
        typer.Option(help="Sandbox for generated code, see `parley doctor`; `none` isolates nothing, and tables say so."),
    ] = None,
    key_env: Annotated[str | None, typer.Option(help="Name of the variable that holds the endpoint's key.")] = None,
    revision: Annotated[
        str | None, typer.Option(help="Name of the weights behind the endpoint. Without it, each day (UTC) begins a new run.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0, help="Draw from the likeliest tokens with this share.")] = 1.0,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of one answer.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Text that ends an answer; may be repeated.")] = None,
    keep_reasoning: Annotated[bool, typer.Option(help="Keep a leading <think> block in the answer.")] = False,
    check_served_model: Annotated[bool, typer.Option(help="Refuse answers of another model than the one asked for.")] = True,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Time limit of one answer, in seconds.")] = 300.0,
    patience_s: Annotated[float, typer.Option(min=0, help="Seconds to wait for an endpoint that stopped answering.")] = 300.0,
    price: Annotated[
        tuple[float, float] | None, typer.Option(metavar="IN OUT", help="USD per million input and output tokens.")
    ] = None,
    max_fault_share: Annotated[float, typer.Option(min=0, max=1, help="Withhold a run with a larger share of faults.")] = 0.01,
    fsync: Annotated[bool, typer.Option("--fsync", help="Flush each write to the disk: safe against loss of power.")] = False,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with this run. Refused if the options describe another run.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the owed episodes and their cost; start nothing.")] = False,
    json_output: Json = False,
) -> None:
    """Evaluate one model on one setting, and publish. After a stop, type it again: finished work is not done twice."""
    from sandbox.registry import default_name
    from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest

    asked = ModelRequest(
        spec=model,
        key_env=key_env,
        revision=revision,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
        omit_reasoning=not keep_reasoning,
        check_served_model=check_served_model,
        timeout_s=timeout_s,
        patience_s=patience_s,
        usd_per_million_input=price[0] if price else None,
        usd_per_million_output=price[1] if price else None,
    )
    request = EvaluationRequest(
        model=asked,
        benchmark=BenchmarkRequest(
            name=benchmark,
            data=data,
            dataset_version=dataset_version,
            options=parse_options(option or []),
            limit=limit,
            samples=samples,
            seed=seed,
        ),
        simulator=simulator_request(simulator, asked, simulator_key_env, simulator_revision, simulator_price),
        judge=ModelRequest(spec=judge) if judge else None,
        sandbox=sandbox or default_name(),
        concurrency=concurrency,
        workers=workers,
        max_fault_share=max_fault_share,
        fsync=fsync,
        resume=resume,
    )
    _finish(find_home(), [request], json_output, dry_run=dry_run)


def simulator_request(
    spec: str | None, model: "ModelRequest", key_env: str | None, revision: str | None, price: tuple[float, float] | None
) -> "ModelRequest | None":
    """The simulator's request. Where simulator and model are one, it takes the model's settings unless it has its own."""
    if spec is None:
        return None
    from tasks.planning.request import ModelRequest

    alike = model if model.spec == spec else ModelRequest(spec=spec)
    return ModelRequest(
        spec=spec,
        key_env=key_env or alike.key_env,
        revision=revision or alike.revision,
        usd_per_million_input=price[0] if price else alike.usd_per_million_input,
        usd_per_million_output=price[1] if price else alike.usd_per_million_output,
    )


def nightly(
    config: Annotated[Path, typer.Option(help="The night's configuration.")] = Path("nightly.yaml"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the owed episodes and their cost; start nothing.")] = False,
    json_output: Json = False,
) -> None:
    """Run every model on every benchmark of a configuration. Publishes once, at the end.

    Runs known attacks and known good programs in the sandbox first. If one of them ends otherwise than it must, the night is
    void (exit 3).
    """
    from flows.night.config import read_config

    settings = read_config(config)
    requests = settings.requests(config.absolute().parent)
    _finish(find_home(settings.home), requests, json_output, dry_run=dry_run, with_canary=True)


def _finish(
    home: Home,
    requests: Sequence["EvaluationRequest"],
    json_output: bool,
    *,
    dry_run: bool = False,
    next_steps: bool = False,
    with_canary: bool = False,
) -> None:
    if dry_run:
        from flows.night.dry_run import show_dry_run

        show_dry_run(home, requests, json_output=json_output)
        return
    from flows.night.invocation import run_night
    from flows.night.progress import board_for_terminal

    board = board_for_terminal(quiet=json_output)
    with board.live():
        outcome = run_night(home, requests, board, with_canary=with_canary)
    if json_output:
        for report in outcome.reports:
            print(json.dumps(_json_line(report, outcome.night_id, home)))
    else:
        from flows.text.results import print_results

        print_results(home, outcome.reports, next_steps=next_steps)
    raise typer.Exit(exit_code(outcome.reports))


def exit_code(reports: Sequence["RunReport"]) -> int:
    """0 done, 1 or 2 a run failed, 3 a run is withheld. Prints failed and withheld runs on stderr."""
    for report in reports:
        if report.status != "finished":
            print(f"parley: {plain_line(f'{report.title}: {report.status}: {report.reason}', 2000)}", file=sys.stderr)
    failed = [report.exit_code for report in reports if report.status == "failed"]
    if failed:
        return min(failed)
    return 3 if any(report.status == "withheld" for report in reports) else 0


def _json_line(report: "RunReport", night_id: str, home: Home) -> dict[str, object]:
    from flows.text.work import work_fields

    return {
        "run_id": report.run_id,
        "night_id": night_id,
        "benchmark": report.setting,
        "model": report.model,
        "status": report.status,
        "reason": report.reason,
        "episodes": report.episodes,
        "owed": report.owed,
        "model_calls": report.model_calls,
        "n_infra": report.n_infra,
        "n_unscored": report.n_unscored,
        "published": report.is_published,
        "warehouse": str(home.warehouse),
        **(work_fields(report.work) if report.work else {}),
    }

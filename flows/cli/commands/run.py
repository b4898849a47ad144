"""`parley run`: evaluation of one model on one setting."""

from typing import Annotated, Literal

import typer

from flows.cli.commands.evaluation import DryRun, FailOn, Json, evaluate
from flows.cli.commands.role_options import (
    Price,
    RoleValues,
    judge_requests,
    price_fields,
    require_role,
    role_request,
    simulator_request,
)
from flows.cli.options import (
    BudgetCaps,
    DatasetVersion,
    Decide,
    Resources,
    comparison_option,
    data_option,
    embedder_option,
    endpoint_option,
    execution_option,
    names_of,
    parse_budget,
    parse_decide,
    parse_options,
    parse_refused,
    parse_resources,
    quality_option,
)
from schemas.errors import UsageError
from tasks.benchmarks.registry import FIRST
from tasks.storage.home import find_home

MODEL_HELP = (
    "embedded:smollm2 | openai:MODEL[@BASE_URL] | vllm:PATH_OR_REPO | recorded:FILE |"
    " control:gold | control:empty"
)
EMBEDDER_HELP = "bge-m3[@FOLDER] | embedded:minilm | openai:MODEL[@BASE_URL]"
_SPEC = "SPEC[,KEY=VALUE...]"


_OF_PROGRAMS = ("sandbox", "audit", "max_forged_share", "skip_missing_packages")


def run(
    context: typer.Context,
    benchmark: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK[.SETTING]",
            help=f"Benchmark and setting, for example {FIRST}. `parley list benchmarks` shows all.",
            autocompletion=names_of("benchmarks"),
        ),
    ],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="SUBJECT", help="Same as --subject.", autocompletion=names_of("models")
        ),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            "--model",
            metavar=_SPEC,
            help=f"Model under test: {MODEL_HELP}",
            autocompletion=names_of("models"),
        ),
    ] = None,
    simulator: Annotated[
        str | None,
        typer.Option(
            metavar=_SPEC, help="Model that plays the user, in settings with a simulated user."
        ),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            metavar=f"[RUBRIC=]{_SPEC}",
            help="Model that judges the dialogues, for one rubric or for all. Repeatable.",
        ),
    ] = None,
    *,
    roles: RoleValues,
    price: Annotated[
        Price,
        endpoint_option(
            metavar="IN OUT", help="Prices in USD per million tokens: input, then output."
        ),
    ] = None,
    simulator_price: Annotated[
        Price,
        endpoint_option(metavar="IN OUT", hidden=True, help="Like --price, for the simulator."),
    ] = None,
    judge_price: Annotated[
        Price, endpoint_option(metavar="IN OUT", hidden=True, help="Like --price, for the judges.")
    ] = None,
    embedder_price: Annotated[
        float | None,
        endpoint_option(
            metavar="IN",
            min=0,
            hidden=True,
            help="Price in USD per million tokens of embedded texts.",
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        embedder_option(
            metavar=_SPEC,
            help=f"Model that embeds texts, for metrics that need vectors: {EMBEDDER_HELP}",
        ),
    ] = None,
    data: Annotated[
        str | None,
        data_option(help="File or folder of raw data. Default: the data staged earlier."),
    ] = None,
    dataset_version: DatasetVersion = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V",
            help="Set an option of the setting (`parley list benchmarks NAME`). Repeatable.",
        ),
    ] = None,
    resource: Resources = None,
    templates: Annotated[
        str | None,
        data_option(
            metavar="DIR",
            help="Folder with your own prompt templates. `parley list templates` shows their"
            " names.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Play only the first N problems. A later run can play more."),
    ] = None,
    skip_missing_packages: Annotated[
        bool,
        data_option(
            "--skip-missing-packages",
            help="Skip tasks whose Python packages are not installed. Tables show the share of"
            " tasks played.",
        ),
    ] = False,
    samples: Annotated[
        int,
        typer.Option(
            min=1, help="Number of episodes of each dialogue, with seeds SEED, SEED+1, ..."
        ),
    ] = 1,
    seed: Annotated[int, data_option(help="Random seed of each dialogue's first episode.")] = 0,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Maximum number of model requests in flight.")
    ] = 64,
    workers: Annotated[
        int,
        execution_option(
            min=1, help="Number of Dask worker processes, at most one for each 16 episodes."
        ),
    ] = 2,
    sandbox: Annotated[
        str | None,
        execution_option(
            help="Sandbox that runs generated code. `parley list sandboxes` shows all. `none`"
            " isolates nothing, and tables say so."
        ),
    ] = None,
    budget: BudgetCaps = None,
    decide: Decide = None,
    ca_file: Annotated[
        str | None,
        execution_option(
            metavar="FILE",
            help="PEM file of additional certificate authorities to trust for endpoints.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        comparison_option(
            help="Also compare the run with this model or run, as `parley compare` does."
        ),
    ] = None,
    max_fault_share: Annotated[
        float,
        quality_option(
            min=0,
            max=1,
            help="Withhold the run if a larger share of its episodes fails for technical reasons.",
        ),
    ] = 0.01,
    audit: Annotated[
        Literal["none", "sample", "all"],
        quality_option(
            help="Passed tests to audit. Parley runs them again with altered expectations: an"
            " honest answer then fails, a forged pass does not."
        ),
    ] = "sample",
    max_forged_share: Annotated[
        float,
        quality_option(
            min=0, max=1, help="Withhold the run if a larger share of its audited passes is forged."
        ),
    ] = 0.01,
    refused: Annotated[
        str,
        quality_option(
            metavar="failed|unscored",
            help="Score of an answer that refuses the prompt: that of a failed answer, or none."
            " Refusals are counted in either case.",
        ),
    ] = "failed",
    fsync: Annotated[
        bool,
        execution_option(
            "--fsync", help="Flush every write to disk, so that a power failure loses nothing."
        ),
    ] = False,
    resume: Annotated[
        str | None,
        execution_option(
            metavar="RUN",
            help="Resume exactly this run; fail if the options describe another one.",
            autocompletion=names_of("runs"),
        ),
    ] = None,
    fail_on: FailOn = None,
    dry_run: DryRun = False,
    json_output: Json = False,
) -> None:
    """Evaluate one model on one setting, and publish the results.

    If the command is interrupted, type it again to resume: finished work is not repeated.
    """
    from sandbox.registry import default_name
    from tasks.planning.participants.choice import refuse_needless, refuse_needless_models
    from tasks.planning.request import BenchmarkRequest, ComparisonRequest, EvaluationRequest

    require_role("simulator", simulator, roles, simulator_price)
    require_role("judge", judge, roles, judge_price)
    require_role("embedder", embedder, roles, embedder_price)
    subject_request = role_request(
        "subject", _subject_spec(model, subject), roles, price_fields(price)
    )
    request = EvaluationRequest(
        model=subject_request,
        benchmark=BenchmarkRequest(
            name=benchmark,
            data=data,
            dataset_version=dataset_version,
            options=parse_options(option or []),
            resources=parse_resources(resource or [], benchmark),
            templates=templates,
            limit=limit,
            skip_missing_packages=skip_missing_packages,
            samples=samples,
            seed=seed,
        ),
        simulator=simulator_request(
            simulator, subject_request, roles, price_fields(simulator_price)
        ),
        judges=judge_requests(judge or [], roles, price_fields(judge_price)),
        embedder=role_request(
            "embedder", embedder, roles, {"usd_per_million_input": embedder_price}
        )
        if embedder
        else None,
        refused=parse_refused(refused),
        sandbox=sandbox or default_name(),
        concurrency=concurrency,
        workers=workers,
        max_fault_share=max_fault_share,
        audit=audit,
        max_forged_share=max_forged_share,
        comparison=ComparisonRequest(baseline=baseline) if baseline else None,
        decide=parse_decide(decide),
        fsync=fsync,
        resume=resume,
    )
    request = request.trusting(ca_file) if ca_file else request
    refuse_needless_models(request)
    for flag in _OF_PROGRAMS:
        source = context.get_parameter_source(flag)
        if source is not None and source.name == "COMMANDLINE":
            refuse_needless(request.benchmark.name, "sandbox", f"--{flag.replace('_', '-')}")
    caps = parse_budget(budget or [])
    evaluate(
        find_home(), [request], json_output, dry_run=dry_run, budget=caps, fail_on=fail_on or ()
    )


def _subject_spec(argument: str | None, option: str | None) -> str:
    """Return the spec of the model under test, from the argument or the option.

    Raises:
        UsageError: neither or both are present.
    """
    if argument is not None and option is not None:
        raise UsageError(
            f"the model under test is named twice: {argument} and --subject {option}. Remove one"
            " of them"
        )
    text = option if argument is None else argument
    if text is None:
        raise UsageError(
            "the model under test is missing. Pass it with --model (or --subject) SPEC:"
            f" {MODEL_HELP}"
        )
    return text

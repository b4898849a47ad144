"""`parley run`: evaluation of one model on one setting."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli.commands.evaluation import DryRun, FailOn, Json, evaluate
from flows.cli.commands.key_values import (
    BudgetCaps,
    Decide,
    Resources,
    parse_budget,
    parse_decide,
    parse_options,
    parse_refused,
    parse_resources,
)
from flows.cli.commands.role_options import (
    KEYS_HELP,
    Price,
    RoleValues,
    judge_requests,
    price_fields,
    role_request,
    simulator_request,
    with_role_options,
)
from flows.cli.completion import names_of
from flows.cli.panels import COMPARISON, DATA, EMBEDDER, ENDPOINT, EXECUTION, QUALITY, PanelCommand
from schemas.errors import UsageError
from tasks.benchmarks.registry import FIRST
from tasks.storage.home import find_home

if TYPE_CHECKING:
    pass

MODEL_HELP = (
    "embedded:smollm2 | openai:MODEL[@BASE_URL] | vllm:PATH_OR_REPO | recorded:FILE |"
    " control:gold | control:empty"
)
EMBEDDER_HELP = "bge-m3[@FOLDER] | embedded:minilm | openai:MODEL[@BASE_URL]"
_SPEC = "SPEC[,KEY=VALUE...]"


def add_to(app: typer.Typer) -> None:
    """Register this module's command."""
    app.command("run", cls=PanelCommand, epilog=KEYS_HELP)(with_role_options(run))


def run(
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
        typer.Option(
            metavar="IN OUT",
            help="Prices in USD per million tokens: input, then output.",
            rich_help_panel=ENDPOINT,
        ),
    ] = None,
    simulator_price: Annotated[
        Price,
        typer.Option(
            metavar="IN OUT",
            hidden=True,
            help="Like --price, for the simulator.",
            rich_help_panel=ENDPOINT,
        ),
    ] = None,
    judge_price: Annotated[
        Price,
        typer.Option(
            metavar="IN OUT",
            hidden=True,
            help="Like --price, for the judges.",
            rich_help_panel=ENDPOINT,
        ),
    ] = None,
    embedder_price: Annotated[
        float | None,
        typer.Option(
            metavar="IN",
            min=0,
            hidden=True,
            help="Price in USD per million tokens of embedded texts.",
            rich_help_panel=ENDPOINT,
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar=_SPEC,
            help=f"Model that embeds texts, for metrics that need vectors: {EMBEDDER_HELP}",
            rich_help_panel=EMBEDDER,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="File or folder of raw data. Default: the data staged earlier.",
            rich_help_panel=DATA,
        ),
    ] = None,
    dataset_version: Annotated[
        str | None, typer.Option(help="Version of the data. `sample` is bundled with Parley.")
    ] = None,
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
        typer.Option(
            metavar="DIR",
            help="Folder with your own prompt templates. `parley list templates` shows their"
            " names.",
            rich_help_panel=DATA,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Play only the first N problems. A later run can play more."),
    ] = None,
    skip_missing_packages: Annotated[
        bool,
        typer.Option(
            "--skip-missing-packages",
            help="Skip tasks whose Python packages are not installed. Tables show the share of"
            " tasks played.",
            rich_help_panel=DATA,
        ),
    ] = False,
    samples: Annotated[
        int,
        typer.Option(
            min=1, help="Number of episodes of each dialogue, with seeds SEED, SEED+1, ..."
        ),
    ] = 1,
    seed: Annotated[
        int,
        typer.Option(help="Random seed of each dialogue's first episode.", rich_help_panel=DATA),
    ] = 0,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Maximum number of model requests in flight.")
    ] = 64,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of Dask worker processes, at most one for each 16 episodes.",
            rich_help_panel=EXECUTION,
        ),
    ] = 2,
    sandbox: Annotated[
        str | None,
        typer.Option(
            help="Sandbox that runs generated code. `parley list sandboxes` shows all. `none`"
            " isolates nothing, and tables say so.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    budget: BudgetCaps = None,
    decide: Decide = None,
    ca_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="PEM file of additional certificate authorities to trust for endpoints.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Also compare the run with this model or run, as `parley compare` does.",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    max_fault_share: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Withhold the run if a larger share of its episodes fails for technical reasons.",
            rich_help_panel=QUALITY,
        ),
    ] = 0.01,
    audit: Annotated[
        Literal["none", "sample", "all"],
        typer.Option(
            help="Passed tests to audit. Parley runs them again with altered expectations: an"
            " honest answer then fails, a forged pass does not.",
            rich_help_panel=QUALITY,
        ),
    ] = "sample",
    max_forged_share: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Withhold the run if a larger share of its audited passes is forged.",
            rich_help_panel=QUALITY,
        ),
    ] = 0.01,
    refused: Annotated[
        str,
        typer.Option(
            metavar="failed|unscored",
            help="Score of an answer that refuses the prompt: that of a failed answer, or none."
            " Refusals are counted in either case.",
            rich_help_panel=QUALITY,
        ),
    ] = "failed",
    fsync: Annotated[
        bool,
        typer.Option(
            "--fsync",
            help="Flush every write to disk, so that a power failure loses nothing.",
            rich_help_panel=EXECUTION,
        ),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Resume exactly this run; fail if the options describe another one.",
            autocompletion=names_of("runs"),
            rich_help_panel=EXECUTION,
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
    from tasks.planning.participants.choice import refuse_needless_embedder, refuse_needless_judges
    from tasks.planning.request import BenchmarkRequest, ComparisonRequest, EvaluationRequest

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
    for refuse_needless in (refuse_needless_judges, refuse_needless_embedder):
        refuse_needless(request)
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

"""The command that evaluates one model: run."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    RoleValues,
    fields_of,
    split_spec,
    with_role_options,
)
from flows.cli.completion import names_of
from flows.cli.panels import COMPARISON, DATA, EMBEDDER, ENDPOINT, EXECUTION, QUALITY, PanelCommand
from schemas.errors import ConfigError, UsageError
from tasks.benchmarks.registry import FIRST
from tasks.planning.role_keys import Role
from tasks.storage.home import find_home

if TYPE_CHECKING:
    from tasks.planning.request import ModelRequest

MODEL_HELP = "embedded:smollm2 | openai:MODEL[@BASE_URL] | vllm:PATH_OR_REPO | recorded:FILE | control:gold | control:empty"
EMBEDDER_HELP = "bge-m3[@FOLDER] | embedded:minilm | openai:MODEL[@BASE_URL]"
_SPEC = "SPEC[,KEY=VALUE...]"
Price = tuple[float, float] | None


def add_to(app: typer.Typer) -> None:
    """Register this module's command."""
    app.command("run", cls=PanelCommand, epilog=KEYS_HELP)(with_role_options(run))


def run(
    benchmark: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK[.SETTING]",
            help=f"For example {FIRST}; all: `parley list benchmarks`.",
            autocompletion=names_of("benchmarks"),
        ),
    ],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="SUBJECT", help="The same as --subject.", autocompletion=names_of("models")
        ),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            "--model",
            metavar=_SPEC,
            help=f"The model under test: {MODEL_HELP}",
            autocompletion=names_of("models"),
        ),
    ] = None,
    simulator: Annotated[
        str | None,
        typer.Option(metavar=_SPEC, help="Model that plays the user, where a setting needs one."),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            metavar=f"[RUBRIC=]{_SPEC}",
            help="Model that judges, by one rubric or by all; may be repeated.",
        ),
    ] = None,
    *,
    roles: RoleValues,
    price: Annotated[
        Price,
        typer.Option(
            metavar="IN OUT",
            help="USD per million input and output tokens.",
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
            help="USD per million tokens of embedded texts.",
            rich_help_panel=ENDPOINT,
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar=_SPEC,
            help=f"Makes vectors of texts, where scores read them: {EMBEDDER_HELP}",
            rich_help_panel=EMBEDDER,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="File or folder of raw data; the data staged before if none is named.",
            rich_help_panel=DATA,
        ),
    ] = None,
    dataset_version: Annotated[
        str | None, typer.Option(help="Version of the data; `sample` comes with Parley.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="An option of the setting; may be repeated."),
    ] = None,
    resource: Resources = None,
    templates: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Your own texts of questions and judge prompts: see `parley list templates`.",
            rich_help_panel=DATA,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Play only the first N problems; a later run may play more."),
    ] = None,
    skip_missing_packages: Annotated[
        bool,
        typer.Option(
            "--skip-missing-packages",
            help="Leave tasks out whose packages are missing; tables show the share.",
            rich_help_panel=DATA,
        ),
    ] = False,
    samples: Annotated[
        int, typer.Option(min=1, help="Episodes of each dialogue, with seeds SEED, SEED+1, ...")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first sample.", rich_help_panel=DATA)] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Model requests in flight.")] = 64,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            help="Dask worker processes, at most one for each episode.",
            rich_help_panel=EXECUTION,
        ),
    ] = 2,
    sandbox: Annotated[
        str | None,
        typer.Option(
            help="Sandbox for generated code, see `parley doctor`; `none` isolates nothing; tables say so.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    budget: BudgetCaps = None,
    decide: Decide = None,
    ca_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="PEM file of authorities that endpoints' certificates may be of, too.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Compare with this model or run, too: see `parley compare`.",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    max_fault_share: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Withhold a run with a larger share of faults.",
            rich_help_panel=QUALITY,
        ),
    ] = 0.01,
    audit: Annotated[
        Literal["none", "sample", "all"],
        typer.Option(
            help="Passes that are audited: run again with altered tests, which an earned pass fails.",
            rich_help_panel=QUALITY,
        ),
    ] = "sample",
    max_forged_share: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Withhold a run with a larger share of forged passes.",
            rich_help_panel=QUALITY,
        ),
    ] = 0.01,
    refused: Annotated[
        str,
        typer.Option(
            metavar="failed|unscored",
            help="How a refusal to answer one prompt is scored; it is counted either way.",
            rich_help_panel=QUALITY,
        ),
    ] = "failed",
    fsync: Annotated[
        bool,
        typer.Option(
            "--fsync",
            help="Flush each write to the disk: safe against loss of power.",
            rich_help_panel=EXECUTION,
        ),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Go on with this run. Refused if the options describe another run.",
            autocompletion=names_of("runs"),
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    fail_on: FailOn = None,
    dry_run: DryRun = False,
    json_output: Json = False,
) -> None:
    """Evaluate one model on one setting, and publish. After a stop, type it again: finished work is not done twice."""
    from sandbox.registry import default_name
    from tasks.planning.participants.embedders import refuse_needless_embedder
    from tasks.planning.participants.judges import refuse_needless_judges
    from tasks.planning.request import BenchmarkRequest, ComparisonRequest, EvaluationRequest

    asked = _request("subject", _one_subject(model, subject), roles, _prices(price))
    request = EvaluationRequest(
        model=asked,
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
        simulator=simulator_request(simulator, asked, roles, _prices(simulator_price)),
        judges=judge_requests(judge or [], roles, _prices(judge_price)),
        embedder=_request("embedder", embedder, roles, {"usd_per_million_input": embedder_price})
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


def _one_subject(argument: str | None, option: str | None) -> str:
    """Return the spec of the model under test, as an argument or an option names it.

    Raises:
        UsageError: neither names it, or both do.
    """
    if argument is not None and option is not None:
        raise UsageError(
            f"the model under test is named twice: {argument} and --subject {option}. Leave one of them out"
        )
    text = option if argument is None else argument
    if text is None:
        raise UsageError(f"no model under test. Name it by --subject SPEC: {MODEL_HELP}")
    return text


def _prices(price: Price) -> Mapping[str, Any]:
    return {"usd_per_million_input": price[0], "usd_per_million_output": price[1]} if price else {}


def _request(
    role: Role,
    text: str,
    roles: RoleValues,
    prices: Mapping[str, Any],
    also: Mapping[str, Any] = MappingProxyType({}),
) -> "ModelRequest":
    """Return the request for a role's model, of its spec with keys, its flags and what holds where these say nothing."""
    from tasks.planning.request import ModelRequest

    spec, own = split_spec(role, text)
    return ModelRequest(**{**also, **prices, **fields_of(role, roles[role], own), "spec": spec})


def judge_requests(
    given: Sequence[str], roles: RoleValues, prices: Mapping[str, Any]
) -> "dict[str, ModelRequest]":
    """`[RUBRIC=]SPEC` arguments -> rubric, or the empty name for all others -> its judge.

    Raises:
        ConfigError: two judges for one rubric.
    """
    judges: dict[str, ModelRequest] = {}
    for text in given:
        before, equals, rest = text.partition("=")
        rubric, spec = (before, rest) if equals and ":" not in before else ("", text)
        if rubric in judges:
            named = f"the rubric {rubric!r}" if rubric else "all rubrics"
            raise ConfigError(
                f"--judge names two models for {named}: {judges[rubric].spec} and {spec}"
            )
        judges[rubric] = _request("judge", spec, roles, prices)
    return judges


def simulator_request(
    text: str | None, model: "ModelRequest", roles: RoleValues, prices: Mapping[str, Any]
) -> "ModelRequest | None":
    """The simulator's request. Where simulator and model are one, it is reached, served and priced as the model, unless told."""
    if text is None:
        return None
    is_model = split_spec("simulator", text)[0] == model.spec
    return _request(
        "simulator",
        text,
        roles,
        prices,
        {name: getattr(model, name) for name in _SHARED} if is_model else {},
    )


_SHARED = ("key_env", "headers", "messages", "profile", "ca_file", "revision", "serve")
_SHARED += ("usd_per_million_input", "usd_per_million_output", "usd_per_hour", "gpus")
"""Fields of a model that hold for a simulator which is the same model."""

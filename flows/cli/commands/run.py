"""The command that evaluates one model: run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli.commands.evaluation import DryRun, Json, evaluate
from flows.cli.commands.key_values import BudgetCaps, Resources, parse_budget, parse_options, parse_resources
from schemas.errors import ConfigError
from tasks.benchmarks.registry import FIRST
from tasks.storage.home import find_home

if TYPE_CHECKING:
    from tasks.planning.request import ModelRequest

MODEL_HELP = "embedded:smollm2 | openai:MODEL[@BASE_URL] | vllm:PATH_OR_REPO | recorded:FILE | control:gold | control:empty"
EMBEDDER_HELP = "bge-m3[@FOLDER] | embedded:minilm | openai:MODEL[@BASE_URL]"


def add_to(app: typer.Typer) -> None:
    """Register this module's command."""
    app.command("run")(run)


def run(
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCHMARK[.SETTING]", help=f"For example {FIRST}; all: `parley list benchmarks`.")
    ],
    model: Annotated[str, typer.Option(help=f"The model under test: {MODEL_HELP}")],
    simulator: Annotated[str | None, typer.Option(help="Model that plays the user, where a setting needs one.")] = None,
    simulator_key_env: Annotated[
        str | None,
        typer.Option(help="Like --key-env, for the simulator; a model that plays both parts has one key, revision and price."),
    ] = None,
    simulator_revision: Annotated[str | None, typer.Option(help="Like --revision, for the simulator.")] = None,
    simulator_price: Annotated[
        tuple[float, float] | None, typer.Option(metavar="IN OUT", help="Like --price, for the simulator.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="[RUBRIC=]SPEC", help="Model that judges, by one rubric or by all; may be repeated."),
    ] = None,
    judge_key_env: Annotated[str | None, typer.Option(help="Like --key-env, for the judges.")] = None,
    judge_revision: Annotated[str | None, typer.Option(help="Like --revision, for the judges.")] = None,
    judge_price: Annotated[
        tuple[float, float] | None, typer.Option(metavar="IN OUT", help="Like --price, for the judges.")
    ] = None,
    embedder: Annotated[str | None, typer.Option(help=f"Makes vectors of texts, where scores read them: {EMBEDDER_HELP}")] = None,
    embedder_key_env: Annotated[str | None, typer.Option(help="Like --key-env, for the embedder.")] = None,
    embedder_revision: Annotated[str | None, typer.Option(help="Like --revision, for the embedder.")] = None,
    embedder_price: Annotated[
        float | None, typer.Option(metavar="IN", min=0, help="USD per million tokens of embedded texts.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Agent that asks the model, in its seat; all: `parley list agents`.")
    ] = None,
    agent_option: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="An option of the agent; may be repeated.")
    ] = None,
    tools_as_text: Annotated[
        bool, typer.Option("--tools-as-text", help="Tell the model of an agent's tools within its messages.")
    ] = False,
    data: Annotated[str | None, typer.Option(help="File or folder of raw data; the data staged before if none is named.")] = None,
    dataset_version: Annotated[str | None, typer.Option(help="Version of the data; `sample` comes with Parley.")] = None,
    option: Annotated[list[str] | None, typer.Option(metavar="K=V", help="An option of the setting; may be repeated.")] = None,
    resource: Resources = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Play only the first N problems; a later run may play more.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Episodes of each dialogue, with seeds SEED, SEED+1, ...")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first sample.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Model requests in flight.")] = 64,
    workers: Annotated[int, typer.Option(min=1, help="Dask worker processes, at most one for each episode.")] = 2,
    sandbox: Annotated[
        str | None, typer.Option(help="Sandbox for generated code, see `parley doctor`; `none` isolates nothing; tables say so.")
    ] = None,
    key_env: Annotated[str | None, typer.Option(help="Name of the variable that holds the endpoint's key.")] = None,
    revision: Annotated[
        str | None, typer.Option(help="Name of the weights behind the endpoint; else each day (UTC) begins a new run.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0, help="Draw from the likeliest tokens with this share.")] = 1.0,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of one answer.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Text that ends an answer; may be repeated.")] = None,
    serve: Annotated[list[str] | None, typer.Option(metavar="K=V", help="How vLLM serves the model, such as replicas=2.")] = None,
    keep_reasoning: Annotated[bool, typer.Option(help="Keep a leading <think> block in the answer.")] = False,
    check_served_model: Annotated[bool, typer.Option(help="Refuse answers of another model than the one asked for.")] = True,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Time limit of one answer, in seconds.")] = 300.0,
    patience_s: Annotated[float, typer.Option(min=0, help="Seconds to wait for an endpoint that stopped answering.")] = 300.0,
    price: Annotated[
        tuple[float, float] | None, typer.Option(metavar="IN OUT", help="USD per million input and output tokens.")
    ] = None,
    usd_per_hour: Annotated[
        float | None, typer.Option(min=0, help="USD per hour of the model's server, if Parley starts one.")
    ] = None,
    gpus: Annotated[float | None, typer.Option(min=0, help="GPUs of the model's server, if Parley starts one.")] = None,
    budget: BudgetCaps = None,
    family: Annotated[str | None, typer.Option(help="Compare this checkpoint with the one before it in this family.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Compare with this model or run, too: see `parley compare`.")] = None,
    max_fault_share: Annotated[float, typer.Option(min=0, max=1, help="Withhold a run with a larger share of faults.")] = 0.01,
    audit: Annotated[
        Literal["none", "sample", "all"],
        typer.Option(help="Passes that are audited: run again with altered tests, which an earned pass fails."),
    ] = "sample",
    max_forged_share: Annotated[
        float, typer.Option(min=0, max=1, help="Withhold a run with a larger share of forged passes.")
    ] = 0.01,
    fsync: Annotated[bool, typer.Option("--fsync", help="Flush each write to the disk: safe against loss of power.")] = False,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with this run. Refused if the options describe another run.")
    ] = None,
    dry_run: DryRun = False,
    json_output: Json = False,
) -> None:
    """Evaluate one model on one setting, and publish. After a stop, type it again: finished work is not done twice."""
    from sandbox.registry import default_name
    from tasks.language.servers.vllm_settings import VllmSettings
    from tasks.planning.participants.embedders import refuse_needless_embedder
    from tasks.planning.participants.judges import refuse_needless_judges
    from tasks.planning.request import BenchmarkRequest, ComparisonRequest, EvaluationRequest, ModelRequest

    asked = ModelRequest(
        spec=model,
        key_env=key_env,
        revision=revision,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
        omit_reasoning=not keep_reasoning,
        tools_as_text=tools_as_text,
        agent=agent,
        agent_options=parse_options(agent_option or []),
        check_served_model=check_served_model,
        timeout_s=timeout_s,
        patience_s=patience_s,
        usd_per_million_input=price[0] if price else None,
        usd_per_million_output=price[1] if price else None,
        usd_per_hour=usd_per_hour,
        gpus=gpus,
        family=family,
        serve=VllmSettings.of_texts(parse_options(serve)) if serve else None,
    )
    request = EvaluationRequest(
        model=asked,
        benchmark=BenchmarkRequest(
            name=benchmark,
            data=data,
            dataset_version=dataset_version,
            options=parse_options(option or []),
            resources=parse_resources(resource or [], benchmark),
            limit=limit,
            samples=samples,
            seed=seed,
        ),
        simulator=simulator_request(simulator, asked, simulator_key_env, simulator_revision, simulator_price),
        judges=judge_requests(judge or [], judge_key_env, judge_revision, judge_price),
        embedder=ModelRequest(
            spec=embedder, key_env=embedder_key_env, revision=embedder_revision, usd_per_million_input=embedder_price
        )
        if embedder
        else None,
        sandbox=sandbox or default_name(),
        concurrency=concurrency,
        workers=workers,
        max_fault_share=max_fault_share,
        audit=audit,
        max_forged_share=max_forged_share,
        comparison=ComparisonRequest(baseline=baseline) if baseline else None,
        fsync=fsync,
        resume=resume,
    )
    for refuse_needless in (refuse_needless_judges, refuse_needless_embedder):
        refuse_needless(request)
    evaluate(find_home(), [request], json_output, dry_run=dry_run, budget=parse_budget(budget or []))


def judge_requests(
    given: Sequence[str], key_env: str | None, revision: str | None, price: tuple[float, float] | None
) -> "dict[str, ModelRequest]":
    """`[RUBRIC=]SPEC` arguments -> rubric, or the empty name for all others -> its judge.

    Raises:
        ConfigError: two judges for one rubric.
    """
    from tasks.planning.request import ModelRequest

    judges: dict[str, ModelRequest] = {}
    for text in given:
        before, equals, rest = text.partition("=")
        rubric, spec = (before, rest) if equals and ":" not in before else ("", text)
        if rubric in judges:
            named = f"the rubric {rubric!r}" if rubric else "all rubrics"
            raise ConfigError(f"--judge names two models for {named}: {judges[rubric].spec} and {spec}")
        judges[rubric] = ModelRequest(
            spec=spec,
            key_env=key_env,
            revision=revision,
            usd_per_million_input=price[0] if price else None,
            usd_per_million_output=price[1] if price else None,
        )
    return judges


def simulator_request(
    spec: str | None, model: "ModelRequest", key_env: str | None, revision: str | None, price: tuple[float, float] | None
) -> "ModelRequest | None":
    """The simulator's request. Where simulator and model are one, it takes the model's settings unless it has its own."""
    if spec is None:
        return None
    from tasks.planning.request import ModelRequest

    alike = model.model_copy(update={"agent": None, "agent_options": {}}) if model.spec == spec else ModelRequest(spec=spec)
    return ModelRequest(
        spec=spec,
        key_env=key_env or alike.key_env,
        revision=revision or alike.revision,
        serve=alike.serve,
        usd_per_million_input=price[0] if price else alike.usd_per_million_input,
        usd_per_million_output=price[1] if price else alike.usd_per_million_output,
        usd_per_hour=alike.usd_per_hour,
        gpus=alike.gpus,
    )

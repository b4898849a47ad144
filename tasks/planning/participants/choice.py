"""Choice of what a request names: setting, options, templates, agent, models, judges, embedder."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.content_id import text_digest
from schemas.errors import ConfigError, UnknownName
from schemas.lake.records import RunRecord
from schemas.run import (
    AgentIdentity,
    EmbedderIdentity,
    ModelIdentity,
    RubricJudge,
    RunSpec,
    Sampling,
)
from tasks.benchmarks.contract import Benchmark, Due
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.setting import Setting
from tasks.benchmarks.templates import owner_of, read_templates
from tasks.dialogue.agents.registry import AGENTS
from tasks.language.access import ModelAccess
from tasks.language.endpoints.request_parts import check_request_fields
from tasks.language.model_spec import parse_embedder
from tasks.planning.participants.access import PlannedJudge, choose, policy_of, with_connection
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


def find_setting(name: str) -> tuple[Benchmark, str]:
    """Return the benchmark and the name of the setting that `name` refers to.

    Args:
        name: `BENCHMARK.SETTING`, or `BENCHMARK` alone if it has only one setting.

    Raises:
        UnknownName: no benchmark or setting has this name. The message lists the known names.
        ConfigError: `name` has no setting, and the benchmark has several.
    """
    first, _, rest = name.partition(".")
    benchmark = BENCHMARKS.load(first)
    if not rest:
        if len(benchmark.settings) != 1:
            raise ConfigError(
                f"benchmark {name!r} has several settings. Name one of "
                f"{', '.join(f'{first}.{s}' for s in benchmark.settings)}"
            )
        rest = next(iter(benchmark.settings))
    benchmark.setting(rest)
    return benchmark, rest


def choose_simulator(
    request: EvaluationRequest,
    benchmark: Benchmark,
    setting: str,
    resumed: RunSpec | None,
    home: Home,
) -> ModelAccess | None:
    """Return the simulator, or None if the setting needs none.

    Its calls have the subject's time limits, because a simulator has no such options. A request
    may name a simulator that its setting does not need, because a night may have settings of both
    kinds.

    Raises:
        ConfigError: the setting needs a simulator, and the request names none.
    """
    if not benchmark.setting(setting).needs_simulator:
        return None
    if request.simulator is None:
        knows_answers = request.model.agent is None and not request.model.converses
        if knows_answers and benchmark.setting(setting).plays_known_answers_alone:
            return None
        raise ConfigError(
            f"{benchmark.name}.{setting} needs a model that simulates the user. Name it with "
            "--simulator SPEC (`simulator` in a night's configuration), for example "
            f"--simulator {request.model.spec}"
        )
    before, concurrency = resumed.simulator if resumed else None, request.concurrency
    access = choose(request.simulator, before, home, concurrency=concurrency)
    return replace(access, policy=policy_of(request.model, concurrency)).limited(
        access.policy.concurrency
    )


def own_sampling(simulator: ModelRequest | None) -> Sampling | None:
    """Return the sampling that the request sets for the simulator; None if it sets none."""
    sampling = simulator.sampling if simulator else Sampling()
    return None if sampling == Sampling() else sampling


def choose_embedder(
    request: EvaluationRequest, benchmark: Benchmark, setting: str, resumed: RunSpec | None
) -> ModelAccess[EmbedderIdentity] | None:
    """Return the embedder; None if neither the setting nor the agent needs one.

    A request may name an embedder that its setting does not need, because a night may have settings
    of both kinds.

    Raises:
        UsageError: an embedder is needed, but none is named, or it is unknown or not installed.
    """
    if not (_needs_embedder(benchmark.setting(setting)) or _agent_needs_embedder(request)):
        return None
    model = request.embedder
    if model is None:
        user = (
            f"agent {request.model.agent}"
            if _agent_needs_embedder(request)
            else f"{benchmark.name}.{setting}"
        )
        raise ConfigError(
            f"{user} compares texts by their vectors. Name an embedder with --embedder SPEC "
            "(`embedder` in a night's configuration): bge-m3, openai:MODEL@BASE_URL, or "
            "embedded:minilm, which needs no network"
        )
    earlier_revision = (
        resumed.embedder.revision
        if resumed and resumed.embedder and resumed.embedder.is_hosted
        else None
    )
    access = parse_embedder(
        model.spec,
        key_env=model.key_env,
        revision=model.revision or earlier_revision,
        request=check_request_fields(model.request),
    )
    return replace(
        access,
        endpoint=with_connection(access.endpoint, model),
        policy=policy_of(model, request.concurrency),
    )


def is_in_play(request: EvaluationRequest, setting: Setting) -> bool:
    """Return True if a participant uses vectors, so that the embedder can change the dialogue."""
    return setting.embedder_in_play or _agent_needs_embedder(request)


def _needs_embedder(setting: Setting) -> bool:
    return setting.needs_embedder or setting.embedder_in_play


def _agent_needs_embedder(request: EvaluationRequest) -> bool:
    return request.model.agent is not None and AGENTS.load(request.model.agent).needs_embedder


def choose_judges(
    request: EvaluationRequest,
    benchmark: Benchmark,
    setting: str,
    resumed: RunSpec | None,
    home: Home | None = None,
) -> Mapping[str, PlannedJudge]:
    """Map each rubric of the setting to its judge.

    A request may name a judge for a setting without rubrics, because a night may have settings of
    both kinds.

    Raises:
        ConfigError: a rubric has no judge.
        UnknownName: the setting has rubrics, and the request names a judge for another rubric.
    """
    rubrics = benchmark.rubrics(setting)
    names = tuple(rubric.name for rubric in rubrics)
    unknown = [name for name in request.judges if name and name not in names]
    if rubrics and unknown:
        raise UnknownName("rubric", unknown[0], names, of=f"{benchmark.name}.{setting}")
    before = {judge.rubric: judge.judge for judge in resumed.judges} if resumed else {}
    chosen = {}
    for rubric in rubrics:
        model = request.judges.get(rubric.name, request.judges.get(""))
        if model is None:
            raise ConfigError(
                f"{benchmark.name}.{setting} has the rubric {rubric.name!r}. Name its judge with "
                f"--judge SPEC or --judge {rubric.name}=SPEC (`judge` or `judges` in a night's "
                "configuration)"
            )
        access = choose(model, before.get(rubric.name), home, concurrency=request.concurrency)
        judge = RubricJudge(
            rubric=rubric.name,
            version=rubric.version,
            prompt=rubric.digest,
            judge=access.identity,
            sampling=model.sampling,
        )
        chosen[rubric.name] = PlannedJudge("judge", access, model, judge)
    return chosen


_USES: Mapping[str, tuple[str, Callable[[Benchmark, str], bool]]] = {
    "simulator": ("has no simulated user", lambda of, name: of.setting(name).needs_simulator),
    "judge": ("has no rubrics", lambda of, name: bool(of.rubrics(name))),
    "embedder": ("uses no vectors", lambda of, name: _needs_embedder(of.setting(name))),
    "sandbox": ("runs no programs", lambda of, name: of.runs_programs(name)),
}
"""Part of a run -> what is said of a setting without it, and whether a setting has it."""


def refuse_needless_models(request: EvaluationRequest) -> None:
    """Raise ConfigError if the request names a model for a role that its setting does not have."""
    models = {
        "simulator": [request.simulator] if request.simulator else [],
        "judge": list(request.judges.values()),
        "embedder": [request.embedder]
        if request.embedder and not _agent_needs_embedder(request)
        else [],
    }
    for role, (model, *_) in ((role, named) for role, named in models.items() if named):
        refuse_needless(request.benchmark.name, role, f"--{role} {model.spec}")


def refuse_needless(setting_name: str, part: str, option: str) -> None:
    """Raise ConfigError if `option` configures a part of a run that the setting does not have."""
    benchmark, setting = find_setting(setting_name)
    lack, has_part = _USES[part]
    if not has_part(benchmark, setting):
        others = ", ".join(
            f"{benchmark.name}.{name}" for name in benchmark.settings if has_part(benchmark, name)
        )
        raise ConfigError(
            f"{option}: {benchmark.name}.{setting} {lack}, so the option has no effect."
            f" Remove it{f'. Settings that use it: {others}' if others else ''}"
        )


def run_options(
    request: EvaluationRequest,
    benchmark: Benchmark,
    setting: str,
    subject: ModelIdentity,
    resumed: RunSpec | None,
    home: Home,
) -> dict[str, str]:
    """Return the request's options, with the options that new runs have (`Option.new_runs`).

    Controls and recordings get no such options. A resumed run keeps its own. A model also keeps its
    options if the lake has runs of it that are older than the new option: their dialogues and
    scores stay valid, and later runs can be compared with the older runs.

    Args:
        request: request of the run.
        benchmark: benchmark of the run.
        setting: setting of the run.
        subject: model under test.
        resumed: spec of the run that is resumed; None for a new run.
        home: home whose lake contains earlier runs.
    """
    options = request.benchmark.options
    new = benchmark.new_run_options(setting, options)
    if not new or not request.model.converses:
        return options
    if resumed is not None:
        chosen = dict(resumed.episode_options + resumed.scoring_options)
        return {**options, **{name: chosen[name] for name in new if name in chosen}}
    label = subject.label + (f"+{request.model.agent}" if request.model.agent else "")
    records = Lake(home.lake).read("runs", RunRecord, benchmark=benchmark.name, model=label)
    specs = [RunSpec.model_validate_json(record.spec_json) for record in records]
    version = request.benchmark.dataset_version or benchmark.data.default_version
    earlier = [
        (spec.episode_options, spec.scoring_options)
        for spec in specs
        if (spec.setting, spec.dataset_version, spec.subject, spec.sampling)
        == (setting, version, subject, request.model.sampling)
    ]
    with_new = {**options, **new}
    is_older = (
        benchmark.split_options(setting, options) in earlier
        and benchmark.split_options(setting, with_new) not in earlier
    )
    return options if is_older else with_new


def choose_agent(model: ModelRequest) -> AgentIdentity | None:
    """Return the agent that acts as the subject; None for the bare model.

    Raises:
        ConfigError: the request has options of an agent, but names no agent.
        UnknownName: no agent has this name.
    """
    if model.agent is None and model.agent_options:
        raise ConfigError(
            f"there are options of an agent ({', '.join(model.agent_options)}), but no agent. "
            "Name one with --agent NAME"
        )
    return None if model.agent is None else AGENTS.load(model.agent).identity(model.agent_options)


def require_batchable(request: EvaluationRequest, find_dues: Callable[[], Iterable[Due]]) -> None:
    """Refuse batches if one answer depends on another, since each would take up to a day.

    Args:
        request: request of the run.
        find_dues: returns the requirements of each dialog's episode. It is called only if the
            subject uses batches.

    Raises:
        ConfigError: a simulator, an embedder, an agent, or the subject of a setting with several
            rounds uses batches.
    """
    for role, model in (("simulator", request.simulator), ("embedder", request.embedder)):
        if model is not None and model.batch:
            raise ConfigError(
                f"only judges, and models under test in settings of one round, take batches. "
                f"Remove `batch` from the {role}"
            )
    if not request.model.batch:
        return
    if request.model.agent is not None:
        raise ConfigError(
            f"agent {request.model.agent!r} sends one request after another, and each would wait "
            "for a batch. Remove --batch (`batch`)"
        )
    rounds = max((due.rounds for due in find_dues()), default=0)
    if rounds > 1:
        raise ConfigError(
            f"{request.benchmark.name} has up to {rounds} rounds, each of which would wait for a "
            "batch. Remove --batch (`batch`): only judges and settings of one round take batches"
        )


Digests = tuple[tuple[str, str], ...]
"""Digests of texts that replace Parley's texts: (name, digest), sorted by name."""


def apply_templates(
    benchmark: Benchmark, setting: str, folder: str | None
) -> tuple[Benchmark, Digests]:
    """Return the benchmark with the user's texts of a setting, and the digests for the run's id.

    Texts of other settings in the folder are checked, but not used.

    Raises:
        ConfigError: the templates are missing or invalid. The message contains the file, the
            placeholder and the remedy.
    """
    if folder is None:
        return benchmark, ()
    wording = benchmark.wording
    if wording is None:
        others = ", ".join(
            name for name in BENCHMARKS.names() if BENCHMARKS.load(name).wording is not None
        )
        raise ConfigError(
            f"templates {folder}: {benchmark.name} takes no templates. Remove the option. "
            f"Benchmarks that take templates: {others}"
        )
    own = {name for name, template in wording.templates.items() if setting in template.settings}
    templates = read_templates(Path(folder), wording.templates)
    texts = {name: text for name, text in templates.items() if owner_of(name) in own}
    if not texts and not own & {path.name.partition(".")[0] for path in Path(folder).iterdir()}:
        raise ConfigError(
            f"templates {folder}: no file belongs to {benchmark.name}.{setting}, which takes "
            f"{', '.join(f'{name}.md' for name in sorted(own)) or 'none'}. "
            "Add one, or remove the option"
        )
    digests = tuple(sorted((name, text_digest(text)) for name, text in texts.items()))
    return (wording.reword(texts) if texts else benchmark), digests


def prompt_digests(benchmark: Benchmark, setting: str, options: Mapping[str, Any]) -> Digests:
    """Return (name, digest) of each prompt of a setting, sorted by name."""
    prompts = benchmark.prompts_of(setting, options)
    return tuple((name, text_digest(prompts[name])) for name in sorted(prompts))

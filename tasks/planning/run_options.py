"""Options and agent of a run, and a check of its use of batches."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from schemas.content_id import text_digest
from schemas.errors import ConfigError
from schemas.lake.records import RunRecord
from schemas.run import AgentIdentity, ModelIdentity, RunSpec
from tasks.benchmarks.contract import Benchmark, Due
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.templates import owner_of, read_templates
from tasks.dialogue.agents.registry import AGENTS
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


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

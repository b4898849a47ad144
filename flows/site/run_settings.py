"""Settings of a run as its page shows them: options, sampling, seed, and the other participants."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schemas.base import Frozen
from schemas.run import ModelIdentity, RunSpec, Sampling


def settings_of(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) of each setting of a run that is set, except model and benchmark."""
    spec = RunSpec.model_validate_json(run["spec_json"])
    agent, simulator = spec.agent, spec.simulator
    facts = (
        ("options of dialogues", _pairs(spec.episode_options)),
        ("options of scoring", _pairs(spec.scoring_options)),
        ("sampling", _fields(spec.sampling)),
        ("samples", str(spec.samples)),
        ("seed", str(spec.seed)),
        ("agent", agent and f"{agent.name} {agent.version} {_pairs(agent.options)}".strip()),
        ("simulated user", simulator and _model(simulator)),
        ("sampling of the simulated user", _fields(spec.simulator_sampling)),
        ("embedder", _fields(spec.embedder)),
        ("served with", _pairs(spec.subject.serving)),
        ("chat template", spec.subject.chat_template),
        ("weights", spec.subject.weights_digest),
        ("limits of programs", _fields(spec.limits)),
        *(("judge", text) for text in _judges(spec)),
    )
    return [(name, text) for name, text in facts if text]


def newest_of_each(runs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the id of the newest run of each model with each combination of settings.

    Older runs that differ only in the model's revision or weights are omitted, because a night
    evaluates each model anew: a hundred nights of five models would be five hundred curves in each
    chart.

    Args:
        runs: newest first.
    """
    newest: dict[tuple[Any, ...], str] = {}
    for run in runs:
        spec = RunSpec.model_validate_json(run["spec_json"])
        subject = spec.subject.model_copy(update={"revision": "", "weights_digest": ""})
        key = (run["model"], run["task_share"], spec.model_copy(update={"subject": subject}).run_id)
        newest.setdefault(key, run["run_id"])
    return set(newest.values())


def _judges(spec: RunSpec) -> Iterator[str]:
    judges = [(judge.rubric, judge.judge, judge.sampling) for judge in spec.judges]
    if spec.judge is not None and not judges:
        judges = [("", spec.judge, Sampling())]
    for rubric, judge, sampling in judges:
        # Shown is what differs from the default, greedy sampling.
        changes = "" if sampling == Sampling() else f"({_fields(sampling)})"
        yield f"{rubric} {_model(judge)} {changes}".strip()


def _model(identity: ModelIdentity) -> str:
    return f"{identity.label} {identity.revision}".strip()


def _pairs(pairs: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs)


def _fields(value: Frozen | None) -> str:
    settings = {} if value is None else value.model_dump(mode="json")
    return _pairs(item for item in settings.items() if item[1] not in (None, "", [], ()))

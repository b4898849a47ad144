"""Settings of a run as its page shows them: options, sampling, seed, and the other participants."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schemas.base import Frozen
from schemas.run import ModelIdentity, RunSpec, Sampling


def settings_of(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) of each setting of a run that is set, except model and benchmark."""
    return list(_settings(RunSpec.model_validate_json(run["spec_json"])))


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


def _settings(spec: RunSpec) -> Iterator[tuple[str, str]]:
    agent, simulator, embedder = spec.agent, spec.simulator, spec.embedder
    facts = (
        ("options of dialogues", _pairs(spec.episode_options)),
        ("options of scoring", _pairs(spec.scoring_options)),
        ("sampling", _fields(spec.sampling)),
        ("samples", str(spec.samples)),
        ("seed", str(spec.seed)),
        (
            "agent",
            ""
            if agent is None
            else f"{agent.name} {agent.version} {_pairs(agent.options)}".strip(),
        ),
        ("simulated user", "" if simulator is None else _model(simulator)),
        (
            "sampling of the simulated user",
            "" if spec.simulator_sampling is None else _fields(spec.simulator_sampling),
        ),
        ("embedder", "" if embedder is None else _fields(embedder)),
        ("served with", _pairs(spec.subject.serving)),
        ("chat template", spec.subject.chat_template),
        ("weights", spec.subject.weights_digest),
        ("limits of programs", _fields(spec.limits)),
    )
    yield from ((name, text) for name, text in facts if text)
    judges = [
        (judge_spec.rubric, judge_spec.judge, judge_spec.sampling) for judge_spec in spec.judges
    ]
    judges += [("", spec.judge, Sampling())] if spec.judge is not None and not judges else []
    yield from (
        ("judge", f"{rubric} {_model(judge)} {_changes(sampling)}".strip())
        for rubric, judge, sampling in judges
    )


def _model(identity: ModelIdentity) -> str:
    return f"{identity.label} {identity.revision}".strip()


def _changes(sampling: Sampling) -> str:
    """Return what differs from the default, greedy sampling."""
    return "" if sampling == Sampling() else f"({_fields(sampling)})"


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs)


def _fields(value: Frozen) -> str:
    present = {
        name: setting
        for name, setting in value.model_dump(mode="json").items()
        if setting not in (None, "", [], ())
    }
    return ", ".join(f"{name}={setting}" for name, setting in present.items())

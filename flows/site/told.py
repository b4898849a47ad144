"""What a run was told to do, as its page says it: options, sampling, seed, and who else took part."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schemas.base import Frozen
from schemas.run import ModelIdentity, RunSpec, Sampling


def told_of(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of what makes two runs of a model differ, where it is set at all."""
    return list(_told(RunSpec.model_validate_json(run["spec_json"])))


def newest_of_each(runs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Ids of the newest among runs that differ in nothing but the model's revision or weights; `runs` begins with the newest.

    A night evaluates each model anew: a hundred nights of five models would be five hundred curves in each chart.
    """
    found: dict[tuple[Any, ...], str] = {}
    for run in runs:
        spec = RunSpec.model_validate_json(run["spec_json"])
        subject = spec.subject.model_copy(update={"revision": "", "weights_digest": ""})
        key = (run["model"], run["task_share"], spec.model_copy(update={"subject": subject}).run_id)
        found.setdefault(key, run["run_id"])
    return set(found.values())


def _told(spec: RunSpec) -> Iterator[tuple[str, str]]:
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
    judges = [(one.rubric, one.judge, one.sampling) for one in spec.judges]
    judges += [("", spec.judge, Sampling())] if spec.judge is not None and not judges else []
    yield from (
        ("judge", f"{rubric} {_model(judge)} {_changes(sampling)}".strip())
        for rubric, judge, sampling in judges
    )


def _model(identity: ModelIdentity) -> str:
    return f"{identity.label} {identity.revision}".strip()


def _changes(sampling: Sampling) -> str:
    """Return what a sampling has that differs from the default, a greedy one."""
    return "" if sampling == Sampling() else f"({_fields(sampling)})"


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs)


def _fields(value: Frozen) -> str:
    set_ones = {
        name: one
        for name, one in value.model_dump(mode="json").items()
        if one not in (None, "", [], ())
    }
    return ", ".join(f"{name}={one}" for name, one in set_ones.items())

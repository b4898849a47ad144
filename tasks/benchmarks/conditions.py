"""Conditions of runs: everything beside model and setting that decides whether two figures may stand in one row of a table."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schemas.content_id import content_id

CONDITION_COLUMNS = (
    *(
        "options",
        "scoring_options",
        "simulator",
        "judges",
        "embedder",
        "sampling",
        "samples",
        "seed",
        "task_share",
    ),
    "conditions",
)
"""Columns that describe a row's condition. `conditions` is a digest of all of it, also of what the other columns shorten."""
OPTION, SCORING, JUDGE = "option.", "scoring.", "judge."
Condition = Mapping[str, str]
"""Name of a part -> its canonical JSON. A part that a run does not have is left out."""


def condition_of(spec_json: str, task_share: float | None, subsample_seed: int | None) -> Condition:
    """Return a run's condition: data, options, sampling, simulator, judges, embedder, and which tasks it has."""
    spec: Mapping[str, Any] = json.loads(spec_json)
    parts: dict[str, object] = {
        "data": [spec.get("dataset_version"), spec.get("dataset_digest")],
        "sampling": spec.get("sampling") or {},
        "samples": spec.get("samples", 1),
        "seed": spec.get("seed", 0),
        "tasks": [1.0 if task_share is None else task_share, subsample_seed],
        "simulator": spec.get("simulator"),
        "embedder": spec.get("embedder"),
        "templates": spec.get("templates") or None,
        "embedder_in_play": spec.get("embedder_in_play"),
        **{f"{OPTION}{name}": value for name, value in spec.get("episode_options") or ()},
        **{f"{SCORING}{name}": value for name, value in spec.get("scoring_options") or ()},
        **{f"{JUDGE}{judge['rubric']}": judge for judge in spec.get("judges") or ()},
    }
    return {
        name: json.dumps(part, sort_keys=True) for name, part in parts.items() if part is not None
    }


def without(condition: Condition, *parts: str) -> Condition:
    """Return a condition without the parts whose names begin so: they cannot change the figures in question."""
    return {name: value for name, value in condition.items() if not name.startswith(parts)}


def rows_of(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Yield the conditions that rows have: each run's, unless another run's includes it.

    So a run of a setting without an option or a judge stands in the rows of all their values.
    """
    every = list({json.dumps(one, sort_keys=True): one for one in conditions}.items())
    for _, condition in sorted(every, key=lambda item: item[0]):
        if not any(fits(condition, other) and condition != other for _, other in every):
            yield condition


def fits(condition: Condition, row: Condition) -> bool:
    """Return whether a run of this condition may stand in a row of that one."""
    return condition.items() <= row.items()


def condition_cells(condition: Condition) -> tuple[object, ...]:
    """Return the values of `CONDITION_COLUMNS`; None for parts that the condition does not have."""
    share = json.loads(condition["tasks"])[0]
    judges = {
        name.removeprefix(JUDGE): _label(json.loads(value)["judge"])
        for name, value in _parts(condition, JUDGE)
    }
    return (
        _options(condition, OPTION),
        _options(condition, SCORING),
        _named(condition, "simulator"),
        json.dumps(judges, sort_keys=True) if judges else None,
        _named(condition, "embedder"),
        condition.get("sampling"),
        _number(condition, "samples"),
        _number(condition, "seed"),
        share,
        content_id(dict(condition))[:8],
    )


def _parts(condition: Condition, prefix: str) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in sorted(condition.items()) if name.startswith(prefix))


def _options(condition: Condition, prefix: str) -> str | None:
    chosen = {
        name.removeprefix(prefix): json.loads(value) for name, value in _parts(condition, prefix)
    }
    return json.dumps(chosen, sort_keys=True) if chosen else None


def _named(condition: Condition, part: str) -> str | None:
    return _label(json.loads(condition[part])) if part in condition else None


def _number(condition: Condition, part: str) -> int | None:
    return int(json.loads(condition[part])) if part in condition else None


def _label(identity: Mapping[str, Any]) -> str:
    """Return a model's name as tables write it."""
    return ":".join(str(identity[name]) for name in ("provider", "name") if identity.get(name))

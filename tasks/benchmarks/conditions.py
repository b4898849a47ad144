"""Conditions of runs: everything besides model and setting that must agree in a table row."""

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
"""Columns that describe a row's condition. `conditions` is a digest of all parts in full."""
OPTION, SCORING, JUDGE = "option.", "scoring.", "judge."
Condition = Mapping[str, str]
"""Canonical JSON of each part, by name. Parts that a run does not have are absent."""


def condition_of(spec_json: str, task_share: float | None, subsample_seed: int | None) -> Condition:
    """Return the condition of a run, including the tasks that it covers."""
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
    """Return a condition without the parts whose names start with one of `parts`."""
    return {name: value for name, value in condition.items() if not name.startswith(parts)}


def rows_of(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Yield the conditions of table rows: every condition that no other condition includes.

    A run without an option or judge therefore appears in the rows of all their values.
    """
    by_json = list({json.dumps(c, sort_keys=True): c for c in conditions}.items())
    for _, condition in sorted(by_json, key=lambda item: item[0]):
        if not any(fits(condition, other) and condition != other for _, other in by_json):
            yield condition


def fits(condition: Condition, row: Condition) -> bool:
    """Return True if a run with this condition belongs in a row with condition `row`."""
    return condition.items() <= row.items()


def condition_cells(condition: Condition) -> tuple[object, ...]:
    """Return the values of `CONDITION_COLUMNS`, with None for absent parts."""
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
    """Return a model's name as shown in tables."""
    return ":".join(str(identity[name]) for name in ("provider", "name") if identity.get(name))

"""Drift cases: short judgements that each night requests again, from a benchmark's `drift.yaml`."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import yaml

from tasks.language.chat_model import Message, Role
from tasks.language.prompt import fill, placeholders

Case = Mapping[str, Any]
"""Drift case: placeholder -> text, or messages as (role, text) pairs.

The key `expected` has the rating that a careful human reader gave.
"""


@cache
def drift_cases(package: str, rubric: str) -> tuple[Case, ...]:
    """Return a rubric's drift cases in file order.

    A night compares each case with the first night that judged it, by position. Add new cases at
    the end.
    """
    of_rubric = _document(package)[rubric]
    return tuple({**of_rubric.get("shared", {}), **case} for case in of_rubric["cases"])


class DriftMessages(Sequence[tuple[Message, ...]]):
    """Prompts of a rubric's drift cases, rendered on first access.

    Rendering is delayed because some benchmarks count tokens in the texts, which is slow.

    Args:
        package: Package that contains `drift.yaml`.
        rubric: Name of the rubric.
        prompt: Prompt of the rubric, with its placeholders.
        show: Returns the texts of the placeholders for a case.
    """

    def __init__(
        self, package: str, rubric: str, prompt: str, show: Callable[[Case], Case]
    ) -> None:
        self._cases, self._prompt, self._show = drift_cases(package, rubric), prompt, show

    def __len__(self) -> int:
        return len(self._cases)

    def __getitem__(self, index: Any) -> Any:
        return self._messages[index]

    @cached_property
    def _messages(self) -> tuple[tuple[Message, ...], ...]:
        names, shown = placeholders(self._prompt), map(self._show, self._cases)
        texts = (
            fill(self._prompt, **{name: values[name] for name in names if name in values})
            for values in shown
        )
        return tuple((Message(Role.USER, text),) for text in texts)


@cache
def _document(package: str) -> Mapping[str, Any]:
    text = files(package).joinpath("drift.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))

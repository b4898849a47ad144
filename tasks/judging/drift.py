"""Short judgements that each night asks a judge anew, from a benchmark's `drift.yaml`."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import yaml

from tasks.language.chat_model import Message, Role
from tasks.language.prompt import fill, placeholders

Case = Mapping[str, Any]
"""Placeholder -> text, or messages as pairs of writer and text. `expected` is the rating that a careful reader gives."""


@cache
def drift_cases(package: str, rubric: str) -> tuple[Case, ...]:
    """Return a rubric's cases in their order. A night compares each with the first night that asked it: add at the end."""
    of_rubric = _document(package)[rubric]
    return tuple({**of_rubric.get("shared", {}), **case} for case in of_rubric["cases"])


class DriftMessages(Sequence[tuple[Message, ...]]):
    """What the judge is asked in each case, made when it is first read: texts may have to be counted, which takes a while.

    Args:
        prompt: the rubric's text with its placeholders.
        show: gives the placeholders their texts.
    """

    def __init__(
        self, package: str, rubric: str, prompt: str, show: Callable[[Case], Case]
    ) -> None:
        self._cases, self._prompt, self._show = drift_cases(package, rubric), prompt, show

    def __len__(self) -> int:
        return len(self._cases)

    def __getitem__(self, place: Any) -> Any:
        return self._messages[place]

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

"""One dialogue as its page shows it: answers in parts of text and code, differences to the answer before, results by turn."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from schemas.dialog import Role
from schemas.episode import StepKind

_FENCE = re.compile(
    r"^ {0,3}```[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^ {0,3}```[ \t]*$\n?|\Z)", re.MULTILINE | re.DOTALL
)
_LINES_COMPARED = 3000
_RESULTS = ("test_verdicts", "judge_verdicts", "scores")
Parts = Mapping[str, Sequence[Mapping[str, Any]]]
"""Table -> its rows of one dialogue."""


def said_in_parts(content: str) -> list[tuple[str, str, str]]:
    """Text and code in their order: `text` or `code`, what it says, and the language that a fence names.

    A fence that nothing closes ends with the answer.
    """
    parts: list[tuple[str, str, str]] = []
    end = 0
    for found in _FENCE.finditer(content):
        parts += [
            ("text", content[end : found.start()], ""),
            ("code", found.group(2), found.group(1)),
        ]
        end = found.end()
    parts.append(("text", content[end:], ""))
    return [part for part in parts if part[1].strip()]


def difference(before: str, after: str) -> list[tuple[str, str]] | None:
    """Lines of a unified diff with their kind: `add`, `del`, `at` or `same`. None where the texts are too long to compare."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _LINES_COMPARED:
        return None
    kinds = {"+": "add", "-": "del", "@": "at"}
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    return [(kinds.get(line[:1], "same"), line) for line in lines]


def turns_of(parts: Parts) -> Iterator[dict[str, Any]]:
    """The turns in their order, each with its steps and what was found of its answer.

    Findings of a turn that nobody spoke in, such as of the dialogue as a whole, come last, without steps.
    """
    before: str | None = None
    spoken: set[Any] = set()
    for turn, steps in groupby(parts["steps"], key=lambda step: step["turn"]):
        spoken.add(turn)
        shown: list[dict[str, Any]] = []
        for step in steps:
            is_answer = step["role"] == Role.ASSISTANT and step["kind"] == StepKind.MESSAGE
            changes = (
                difference(before, step["content"]) if is_answer and before is not None else []
            )
            before = step["content"] if is_answer else before
            feedback = [
                (k, step[f"{k}_feedback"])
                for k in ("compilation", "execution", "verbal")
                if step[f"{k}_feedback"]
            ]
            told = {
                "parts": said_in_parts(step["content"]),
                "changes": changes,
                "feedback": feedback,
            }
            shown.append({**step, "is_answer": is_answer, **told})
        yield {"turn": turn, "steps": shown, **_found(parts, turn)}
    others = {row["turn"] for name in _RESULTS for row in parts[name]} - spoken
    for turn in sorted(others, key=lambda turn: (turn is None, turn or 0)):
        yield {"turn": turn, "steps": [], **_found(parts, turn)}


def _found(parts: Parts, turn: Any) -> dict[str, list[Mapping[str, Any]]]:
    return {name: [row for row in parts[name] if row["turn"] == turn] for name in _RESULTS}

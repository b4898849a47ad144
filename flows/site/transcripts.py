"""One dialogue as its page shows it.

Answers are split in text and code, compared with the previous answer, and shown with their results
by turn.
"""

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
"""Map from table to its rows about one dialogue."""


def message_parts(content: str) -> list[tuple[str, str, str]]:
    """Return the text and code parts of a message.

    A part is (`text` or `code`, content, language named by the fence). A fence that is not closed
    ends with the message.
    """
    parts: list[tuple[str, str, str]] = []
    end = 0
    for fence in _FENCE.finditer(content):
        parts += [
            ("text", content[end : fence.start()], ""),
            ("code", fence.group(2), fence.group(1)),
        ]
        end = fence.end()
    parts.append(("text", content[end:], ""))
    return [part for part in parts if part[1].strip()]


def difference(before: str, after: str) -> list[tuple[str, str]] | None:
    """Return the lines of a unified diff with their kind: `add`, `del`, `at` or `same`.

    None: the texts are too long to compare.
    """
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _LINES_COMPARED:
        return None
    kinds = {"+": "add", "-": "del", "@": "at"}
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    return [(kinds.get(line[:1], "same"), line) for line in lines]


def turns_of(parts: Parts) -> Iterator[dict[str, Any]]:
    """Yield the turns in order, each with its steps and the results of its answer.

    Results of turns without a message, such as those of the whole dialogue, come last, without
    steps.
    """
    before: str | None = None
    with_steps: set[Any] = set()
    for turn, steps in groupby(parts["steps"], key=lambda step: step["turn"]):
        with_steps.add(turn)
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
            contents = {
                "parts": message_parts(step["content"]),
                "changes": changes,
                "feedback": feedback,
            }
            shown.append({**step, "is_answer": is_answer, **contents})
        yield {"turn": turn, "steps": shown, **_results_of(parts, turn)}
    others = {row["turn"] for name in _RESULTS for row in parts[name]} - with_steps
    for turn in sorted(others, key=lambda turn: (turn is None, turn or 0)):
        yield {"turn": turn, "steps": [], **_results_of(parts, turn)}


def _results_of(parts: Parts, turn: Any) -> dict[str, list[Mapping[str, Any]]]:
    return {name: [row for row in parts[name] if row["turn"] == turn] for name in _RESULTS}

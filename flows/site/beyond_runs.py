"""Pages about more than one run: comparisons, nights, and histories of model families.

The module also prepares the dialogues that pages show. Answers are split in text and code, compared
with the previous answer, and shown with their results by turn.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from flows.site.charts import Colours, history_chart, narrowing_charts
from flows.site.pages import SHORT, comparison_page, file_name, history_page, night_page, write
from flows.text.night import seconds_of, withheld_lines
from flows.text.work import work_lines
from schemas.dialog import Role
from schemas.episode import StepKind
from schemas.errors import UsageError
from schemas.grouping import grouped
from schemas.lake.records import NightRecord
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from warehouse.site_rows import SiteRows

SIDE_BY_SIDE = 500
"""Maximum number of pages per comparison that show both transcripts of a changed dialogue.

For further changed dialogues, the comparison links to the transcript in each run.
"""

Pair = tuple[str, str]
"""Ids of two compared runs: (old, new)."""


def write_comparisons(
    folder: Path,
    rows: SiteRows,
    requested: Sequence[Pair],
    leading: Mapping[Pair, Sequence[Mapping[str, Any]]],
) -> list[dict[str, Any]]:
    """Write a page for each pair of runs to compare.

    These are the pairs that a night compared, the requested pairs, and the two best models of each
    setting. Only the pages of requested pairs and of the latest night's pairs list the dialogues
    that changed. The pages of earlier nights show metrics alone, because each pair can have
    hundreds of changed dialogues, and every night adds pairs.

    Args:
        requested: pairs named by `--compare`.
        leading: pair of a setting's two best models -> its rows as in the table `comparisons`.

    Returns:
        One dictionary per page: the name, the two runs, and how much changed between them.
    """
    comparisons = rows.rows(
        "select * from comparisons order by night_id desc, run_id, against, metric"
    )
    latest, with_dialogues = rows.last_compared_night(), set(requested)
    of_pair: defaultdict[Pair, list[dict[str, Any]]] = defaultdict(list)
    for row in comparisons:
        pair = row["other_run_id"], row["run_id"]
        of_pair[pair].append(row)
        if row["night_id"] == latest:
            with_dialogues.add(pair)
    runs = {run["run_id"]: run for run in rows.runs()}
    named: list[dict[str, Any]] = []
    for pair in dict.fromkeys([*requested, *of_pair, *leading]):
        if not set(pair) <= runs.keys():
            continue
        old, new = pair
        sides = {"name": f"{old[:SHORT]}-{new[:SHORT]}", "old": runs[old], "new": runs[new]}
        changed = rows.changed(old, new) if pair in with_dialogues else None
        both = {(row["old_episode"], row["new_episode"]): row for row in changed or ()}
        shown = dict(list(both.items())[:SIDE_BY_SIDE])
        values = of_pair.get(pair) or leading.get(pair) or []
        decided = [row for row in rows.decisions(new) if row["baseline_run_id"] == old]
        write(
            folder / comparison_page(old, new),
            "compared",
            up="../",
            **sides,
            rows=values,
            changed=changed,
            shown=set(shown),
            narrowings=narrowing_charts(decided),
        )
        _write_side_by_side(folder, rows, pair, sides, shown)
        n_changed = None if changed is None else len(both)
        named.append({**sides, "n_changed": n_changed, "n_lost": _n_lost(values)})
    return named


def _write_side_by_side(
    folder: Path,
    rows: SiteRows,
    pair: Pair,
    sides: Mapping[str, Any],
    shown: Mapping[Pair, Mapping[str, Any]],
) -> None:
    """Write a page with both transcripts of each changed dialogue.

    Args:
        sides: `name` of the comparison, and its runs `old` and `new`.
        shown: ids of the two episodes -> row of the changed dialogue.
    """
    of_old = rows.parts_of(pair[0], [episode for episode, _ in shown])
    of_new = rows.parts_of(pair[1], [episode for _, episode in shown])
    for (episodes, row), (_, left), (_, right) in zip(shown.items(), of_old, of_new, strict=True):
        write(
            folder / "compared" / sides["name"] / f"{'-'.join(map(file_name, episodes))}.html",
            "side_by_side",
            up="../../",
            **sides,
            row=row,
            left=list(turns_of(left)),
            right=list(turns_of(right)),
        )


def write_nights(folder: Path, rows: SiteRows, home: Home) -> list[dict[str, Any]]:
    """Write a page for each night, and return the nights, newest first."""
    lake = Lake(home.lake)
    nights = sorted(
        lake.read("nights", NightRecord), key=lambda night: night.started_at, reverse=True
    )
    published = {run["run_id"]: run for run in rows.runs()}
    events = grouped((row["night_id"], row) for row in rows.events())
    for night in nights:
        seconds = seconds_of(lake, night.night_id)
        works = [
            {
                "work": work,
                "run": published.get(work.run_id),
                "lines": list(work_lines(work)),
                "withheld": _withheld(home, work.run_id) if work.status != "finished" else [],
                "seconds": seconds.get(work.run_id, {}),
            }
            for work in night.work
        ]
        write(
            folder / night_page(night.night_id),
            "night",
            up="../",
            night=night,
            works=works,
            besides=seconds.get("", {}),
            events=events.get(night.night_id, []),
        )
    return [
        {
            "night_id": night.night_id,
            "started_at": night.started_at,
            "work": night.work,
            "n_lost": _n_lost(events.get(night.night_id, [])),
        }
        for night in nights
    ]


def _n_lost(rows: Iterable[Mapping[str, Any]]) -> int:
    return sum(row["event"] == "regression" for row in rows)


def _withheld(home: Home, run_id: str) -> list[str]:
    try:
        return withheld_lines(home, run_id)
    except UsageError as error:
        return [str(error)]


def write_history(folder: Path, rows: SiteRows, colours: Colours) -> list[dict[str, Any]]:
    """Write a page for each model family, and return their names and counts."""
    history = rows.history()
    families: list[dict[str, Any]] = []
    for family, members in groupby(history, key=lambda row: row["family"]):
        points = list(members)
        groups = groupby(points, key=lambda row: (row["series"], row["metric"]))
        lists = (list(group) for _, group in groups)
        series = [{"points": group, "chart": history_chart(group, colours)} for group in lists]
        write(folder / history_page(family), "history", up="../", family=family, series=series)
        families.append(
            {
                "family": family,
                "n": len({row["run_id"] for row in points}),
                "n_lost": sum(row["event"] in ("trend", "change_point") for row in points),
            }
        )
    return families


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
    steps. A dialogue of one turn may have scores of another number, since it replays a later turn
    of a logged dialogue. They stand beside its answer.
    """
    replayed = {score["turn"] for score in parts["scores"]} - {0, None}
    if len(replayed) == 1 and len(own := {step["turn"] for step in parts["steps"]} - {0}) == 1:
        parts = {
            **parts,
            "scores": [{**s, "turn": s["turn"] and min(own)} for s in parts["scores"]],
        }
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

"""MemoryCode (Rakotonirina et al. 2025): coding rules over many sessions, and programs.

The programs must follow the latest rules.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_rows import BadRow, matching
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    DialogConfig,
    MetricConfig,
    NormalDialog,
    NormalTurn,
    Questions,
    RawDialog,
    answer_turn,
    attempt,
    file_name,
    metric_config,
    read_json,
    row_excerpt,
    scripted_turn,
    shown_text,
)

LONG = 15
"""Dialogues with more sessions are `long`."""
_NAME = re.compile(r"dialogue_(\d+)\.json(\.gz)?")
QUESTIONS = {
    "memorycode_system": shown_text(
        "memorycode",
        "You are {mentee}, a new software engineer at {company}. Your mentor {mentor} has told you "
        "how code is to be written. Answer with Python code alone: no greeting, no explanation, "
        "nothing before or after the code, and no questions.",
    ),
    "memorycode_query": shown_text(
        "memorycode",
        "From all that you were told, write a {query}. Give no example of its use. Follow "
        "your mentor's newest guidelines, whatever was updated since.",
        "query",
    ),
}


def find(folder: Path) -> Sequence[Path]:
    """Return `dialogue_N.json` in the folder or in its subfolder `dataset`."""
    for place in (folder, folder / "dataset"):
        paths = [path for path in matching(place, "dialogue_*.json") if _NAME.fullmatch(path.name)]
        if paths:
            return sorted(paths, key=_number)
    return ()


def _number(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match.group(1)) if match else 0


def read(files: Sequence[Path], questions: Questions) -> Iterator[RawDialog]:
    """Yield one dialogue per query of each file's last session.

    A file whose last session has no query yields an invalid row.
    """
    number = 0
    for path in files:
        try:
            content = read_json(path)
            context, sessions = content["context"], content["sessions"]
            history = _history(context, sessions)
            queries = _queries(sessions[-1])
        except BadRow as bad:
            yield RawDialog(path, 1, bad)
            continue
        except (KeyError, IndexError, TypeError, ValueError) as fault:
            yield RawDialog(path, 1, BadRow("wrong_type", f"{type(fault).__name__}: {fault}"))
            continue
        if not queries:
            yield RawDialog(
                path,
                1,
                BadRow(
                    "nothing_asked", "the last session has no query, so upstream ignores the file"
                ),
            )
        for place, (query, rule) in enumerate(queries):
            about = {
                "source_file": file_name(path),
                "original_dialog_id": _number(path),
                "query_idx": place,
            }
            dialog = attempt(
                _dialog, questions, context, len(sessions), len(history), query, rule, number, about
            )
            yield RawDialog(path, 1, dialog, row_excerpt(query), history)
            number += 1


def _queries(session: Mapping[str, Any]) -> list[tuple[str, Any]]:
    queries, rules = session["history_eval_query"], session["history_regex"]
    if len(queries) != len(rules):
        raise BadRow(
            "unpaired_queries",
            f"{len(queries)} queries and {len(rules)} rules, so upstream ignores the file",
        )
    return list(zip(queries, rules, strict=True))


def _history(context: Mapping[str, Any], sessions: Sequence[Mapping[str, Any]]) -> list[NormalTurn]:
    mentor, mentee = str(context["mentor"]), str(context["mentee"])
    speaker = re.compile(f"({re.escape(mentor)}|{re.escape(mentee)}):")
    turns = list[NormalTurn]()
    for number, session in enumerate(sessions):
        parts = speaker.split(session["text"])
        for name, words in zip(parts[1::2], parts[2::2], strict=True):
            turns.append(
                scripted_turn(
                    "user" if name == mentor else "assistant", words.strip(), raw_session_id=number
                )
            )
            turns[-1].turn_id = len(turns)
    return turns


def _dialog(
    questions: Questions,
    context: Mapping[str, Any],
    n_sessions: int,
    n_before: int,
    query: str,
    rule: Any,
    number: int,
    about: Mapping[str, Any],
) -> NormalDialog:
    names = {name: str(context[name]) for name in ("mentor", "mentee", "company")}
    system, request = (
        questions.render("memorycode_system", **names),
        questions.render("memorycode_query", query=query),
    )
    turns = [
        scripted_turn("system", system),
        scripted_turn("user", request),
        answer_turn(source={"regex": rule}),
    ]
    turns[1].turn_id, turns[2].turn_id = n_before + 1, n_before + 2
    personas = {
        name: context[name] for name in ("mentor_persona", "mentee_persona") if name in context
    }
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={**about, **names, **personas},
        dialog_labels={
            "task_type": "history_eval",
            "task_subtype": "long" if n_sessions > LONG else "short",
        },
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=turns,
    )


def metrics_of(source: dict[str, Any]) -> Sequence[MetricConfig]:
    """Return the metric with the rule that the program must follow."""
    return (metric_config("code_match", regex=source["regex"]),) if "regex" in source else ()


DATASET = Dataset(
    "memorycode",
    "MemoryCode: programs that keep the rules of many sessions; reference history",
    find,
    read,
    metrics_of=metrics_of,
    max_tokens=4096,
    questions=QUESTIONS,
)

"""MemoryCode (Rakotonirina et al. 2025): coding rules told over many sessions, and programs that must keep the latest ones."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_lines import BadRow
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    Read,
    attempt,
    file_name,
    matching,
    shown,
    whole_json,
)
from tasks.benchmarks.unidial.normal import (
    DialogConfig,
    MetricConfig,
    NormalDialog,
    NormalTurn,
    asked,
    measured,
    said,
)
from tasks.benchmarks.unidial.questions import Questions, shown_text

LONG = 15
"""More sessions than this make a dialogue `long`."""
_NAME = re.compile(r"dialogue_(\d+)\.json(\.gz)?")
QUESTIONS = {
    "memorycode_system": shown_text(
        "memorycode",
        "You are {mentee}, a new software engineer at {company}. Your mentor {mentor} has told you how code is to be written."
        " Answer with Python code alone: no greeting, no explanation, nothing before or after the code, and no questions.",
    ),
    "memorycode_query": shown_text(
        "memorycode",
        "From all that you were told, write a {query}. Give no example of its use. Follow your mentor's newest guidelines,"
        " whatever was updated since.",
        "query",
    ),
}


def find(folder: Path) -> Sequence[Path]:
    """`dialogue_N.json`, in the folder or in `dataset` below it."""
    for place in (folder, folder / "dataset"):
        found = [path for path in matching(place, "dialogue_*.json") if _NAME.fullmatch(path.name)]
        if found:
            return sorted(found, key=_number)
    return ()


def _number(path: Path) -> int:
    named = _NAME.fullmatch(path.name)
    return int(named.group(1)) if named else 0


def read(files: Sequence[Path], questions: Questions) -> Iterator[Read]:
    """Yield one dialogue a query of each file's last session. A file whose last session asks nothing gives a faulty row."""
    number = 0
    for path in files:
        try:
            held = whole_json(path)
            context, sessions = held["context"], held["sessions"]
            history = _history(context, sessions)
            queries = _queries(sessions[-1])
        except BadRow as bad:
            yield Read(path, 1, bad)
            continue
        except (KeyError, IndexError, TypeError, ValueError) as fault:
            yield Read(path, 1, BadRow("wrong_type", f"{type(fault).__name__}: {fault}"))
            continue
        if not queries:
            yield Read(
                path,
                1,
                BadRow(
                    "nothing_asked", "the last session has no query: upstream leaves the file out"
                ),
            )
        for place, (query, rule) in enumerate(queries):
            about = {
                "source_file": file_name(path),
                "original_dialog_id": _number(path),
                "query_idx": place,
            }
            made = attempt(
                _dialog, questions, context, len(sessions), len(history), query, rule, number, about
            )
            yield Read(path, 1, made, shown(query), history)
            number += 1


def _queries(session: Mapping[str, Any]) -> list[tuple[str, Any]]:
    queries, rules = session["history_eval_query"], session["history_regex"]
    if len(queries) != len(rules):
        raise BadRow(
            "unpaired_queries",
            f"{len(queries)} queries and {len(rules)} rules: upstream leaves such a file out",
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
                said(
                    "user" if name == mentor else "assistant", words.strip(), raw_session_id=number
                )
            )
            turns[-1].turn_id = len(turns)
    return turns


def _dialog(
    questions: Questions,
    context: Mapping[str, Any],
    n_sessions: int,
    n_said: int,
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
    turns = [said("system", system), said("user", request), asked(source={"regex": rule})]
    turns[1].turn_id, turns[2].turn_id = n_said + 1, n_said + 2
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
    """The rule that the program must keep."""
    return (measured("code_match", regex=source["regex"]),) if "regex" in source else ()


DATASET = Dataset(
    "memorycode",
    "MemoryCode: programs that keep the rules of many sessions; reference history",
    find,
    read,
    metrics_of=metrics_of,
    max_tokens=4096,
    questions=QUESTIONS,
)

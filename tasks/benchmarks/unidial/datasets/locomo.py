"""LoCoMo (Maharana et al. 2024): questions on a conversation of two friends over many sessions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_rows import BadRow, matching
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    DialogConfig,
    NormalDialog,
    NormalTurn,
    Questions,
    RawDialog,
    answer_turn,
    attempt,
    file_name,
    metric_config,
    numbered,
    read_json,
    row_excerpt,
    scripted_turn,
    shown_text,
)

CATEGORIES = {1: "Multi-hop", 2: "Temporal", 3: "Open-domain", 4: "Single-hop", 5: "Adversarial"}
ADVERSARIAL = 5
UNANSWERABLE = ["no information available", "not mentioned"]
_SESSION = re.compile(r"session_(\d+)")
_SHORT = (
    "Question: From the talk above, answer this question in a few words, taken from the talk "
    "itself where you can.\n\nQuestion: "
)
QUESTIONS = {
    "locomo_system": shown_text(
        "locomo",
        "You are {assistant}, and the user is {user}. What follows is your talk with {user} "
        "over many days. A line with the date stands where a new conversation begins.",
    ),
    "locomo_question": shown_text("locomo", f"{_SHORT}{{question}}", "question"),
    "locomo_date_question": shown_text(
        "locomo",
        f"{_SHORT}{{question}} Give the date, as near as the dates of the conversations tell.",
        "question",
    ),
    "locomo_choice": shown_text(
        "locomo",
        "Question: From the talk above, answer this question.\n\nQuestion: {question} Choose "
        "the right one: (a) {first} (b) {second}.",
        *("question", "first", "second"),
    ),
}
"""Texts of questions.

`locomo_date_question` is for category Temporal, `locomo_choice` for Adversarial, and
`locomo_question` for the others.
"""
TEMPORAL = 2


def find(folder: Path) -> Sequence[Path]:
    """Return `locomo10.json`, or else the files `N.json` with one conversation each."""
    complete = matching(folder, "locomo10.json")
    if complete:
        return complete
    single_files = numbered(folder)
    return single_files if single_files and _is_conversation(single_files[0]) else ()


def _is_conversation(path: Path) -> bool:
    try:
        content = read_json(path)
    except BadRow:
        return False
    return isinstance(content, dict) and "speaker_a" in content and "qa" in content


def read(files: Sequence[Path], questions: Questions) -> Iterator[RawDialog]:
    """Yield one dialogue per question.

    Two layouts are supported: each file has one conversation with its sessions at the top level, or
    one file has a list of conversations with the sessions under the key `conversation`.
    """
    number = 0
    for path in files:
        try:
            content = read_json(path)
        except BadRow as bad:
            yield RawDialog(path, 0, bad)
            continue
        for place, sample in enumerate(content if isinstance(content, list) else [content]):
            try:
                conversation = _Conversation(sample, file_name(path), place, questions)
                asked = list(sample["qa"])
            except (KeyError, TypeError, ValueError, AttributeError) as fault:
                yield RawDialog(
                    path,
                    place + 1,
                    BadRow("wrong_type", f"conversation {place}: {type(fault).__name__}: {fault}"),
                )
                continue
            for question in asked:
                dialog = attempt(conversation.dialog_of, question, number)
                yield RawDialog(
                    path, place + 1, dialog, row_excerpt(question), conversation.history
                )
                number += 1


class _Conversation:
    """Conversation of two friends, about which the questions ask."""

    def __init__(
        self, sample: Mapping[str, Any], file: str, place: int, questions: Questions
    ) -> None:
        self._questions = questions
        sessions = sample.get("conversation", sample)
        self._user, self._assistant = str(sessions["speaker_a"]), str(sessions["speaker_b"])
        name = str(sample.get("sample_id", file.partition(".")[0]))
        self._info = {"sample_id": name, "source_file": file, "line_index": place}
        self._place_of: dict[str, int] = {}
        turns = [turn for number in _sessions(sessions) for turn in self._session(sessions, number)]
        for number, turn in enumerate(turns, 1):
            turn.turn_id = number
            if "raw_id" in turn.turn_labels:
                self._place_of[turn.turn_labels["raw_id"].strip()] = number
        self._last = turns.pop() if turns and turns[-1].role == "user" else None
        self.history = turns

    def _session(self, sessions: Mapping[str, Any], number: int) -> Iterator[NormalTurn]:
        """Yield the utterances of a session.

        The date is part of the first one, or a separate message if the assistant opens the session.
        """
        date = str(sessions.get(f"session_{number}_date_time", ""))
        for place, item in enumerate(sessions[f"session_{number}"]):
            is_user = item["speaker"] == self._user
            text = item["text"] + (
                f" [shared {item['blip_caption']}]" if "blip_caption" in item else ""
            )
            if place == 0 and not is_user:
                yield scripted_turn("user", f"DATE: {date}", raw_date_time=date)
            elif place == 0:
                text = f"DATE: {date}\n\n{text}"
            yield scripted_turn(
                "user" if is_user else "assistant", text, raw_id=item["dia_id"], raw_date_time=date
            )

    def dialog_of(self, row: Mapping[str, Any], number: int) -> NormalDialog:
        """Return the dialogue of one question.

        If the last message is the user's, the question is appended to it, so that messages
        alternate.
        """
        category = int(row["category"])
        has_answer = "answer" in row
        if not has_answer and category != ADVERSARIAL:
            raise BadRow("missing_field", "answer")
        answer = str(row["answer"]) if has_answer else UNANSWERABLE
        question, before = self._question(row, category, answer), self._last
        system = scripted_turn(
            "system",
            self._questions.render("locomo_system", user=self._user, assistant=self._assistant),
        )
        opening = scripted_turn("user", f"{before.content}\n\n{question}" if before else question)
        metric = {
            1: metric_config("f1_score", multi_answer=True),
            ADVERSARIAL: metric_config("recall", binary=True),
        }
        last = answer_turn(
            answer,
            metric.get(category, metric_config("f1_score")),
            document=self._evidence(row["evidence"]),
        )
        opening.turn_labels = before.turn_labels if before else {}
        opening.turn_id = len(self.history) + 1
        last.turn_id = opening.turn_id + 1
        return NormalDialog(
            dialog_id=number,
            dialog_raw_info=dict(self._info),
            dialog_labels={"category": CATEGORIES[category]},
            dialog_eval_config=DialogConfig(use_reference_history=True),
            dialog_turns=[system, opening, last],
        )

    def _question(self, row: Mapping[str, Any], category: int, answer: str | list[str]) -> str:
        values = {"question": str(row["question"])}
        if category == ADVERSARIAL:
            first, second = (
                (answer, "Not mentioned in the conversation") if isinstance(answer, str) else answer
            )
            return self._questions.render("locomo_choice", **values, first=first, second=second)
        return self._questions.render(
            "locomo_date_question" if category == TEMPORAL else "locomo_question", **values
        )

    def _evidence(self, names: Sequence[str]) -> list[int]:
        """Return the turns that hold the answer. Unknown names are left out."""
        ids = [
            part
            for name in names
            for part in (re.split(r"[; ]+", name) if ";" in name else [name.strip()])
        ]
        return [self._place_of[name] for name in ids if name in self._place_of]


def _sessions(sessions: Mapping[str, Any]) -> list[int]:
    return sorted(int(match.group(1)) for name in sessions if (match := _SESSION.fullmatch(name)))


DATASET = Dataset(
    "locomo",
    "LoCoMo: questions after a talk of hundreds of turns; reference history",
    find,
    read,
    questions=QUESTIONS,
)

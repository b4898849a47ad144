"""LoCoMo (Maharana et al. 2024): questions on a talk of two friends over many sessions."""

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
    NormalDialog,
    NormalTurn,
    asked,
    measured,
    said,
)
from tasks.benchmarks.unidial.questions import Questions, shown_text

CATEGORIES = {1: "Multi-hop", 2: "Temporal", 3: "Open-domain", 4: "Single-hop", 5: "Adversarial"}
ADVERSARIAL = 5
UNANSWERABLE = ["no information available", "not mentioned"]
_SESSION = re.compile(r"session_(\d+)")
_SHORT = "Question: From the talk above, answer this question in a few words, taken from the talk itself where you can.\n\nQuestion: "
QUESTIONS = {
    "locomo_system": shown_text(
        "locomo",
        "You are {assistant}, and the user is {user}. What follows is your talk with {user} over many days. A line with the date"
        " stands where a new conversation begins.",
    ),
    "locomo_question": shown_text("locomo", f"{_SHORT}{{question}}", "question"),
    "locomo_date_question": shown_text(
        "locomo",
        f"{_SHORT}{{question}} Give the date, as near as the dates of the conversations tell.",
        "question",
    ),
    "locomo_choice": shown_text(
        "locomo",
        "Question: From the talk above, answer this question.\n\nQuestion: {question} Choose the right one: (a) {first} (b)"
        " {second}.",
        *("question", "first", "second"),
    ),
}
"""`locomo_date_question` is of the category Temporal, `locomo_choice` of Adversarial, `locomo_question` of the others."""
TEMPORAL = 2


def find(folder: Path) -> Sequence[Path]:
    """`locomo10.json`, or one file a conversation, named by its number."""
    whole = matching(folder, "locomo10.json")
    if whole:
        return whole
    alone = [
        path
        for path in matching(folder, "[0-9]*.json")
        if re.fullmatch(r"\d+\.json(\.gz)?", path.name)
    ]
    return (
        sorted(alone, key=lambda path: int(path.name.partition(".")[0]))
        if alone and _is_talk(alone[0])
        else ()
    )


def _is_talk(path: Path) -> bool:
    try:
        held = whole_json(path)
    except BadRow:
        return False
    return isinstance(held, dict) and "speaker_a" in held and "qa" in held


def read(files: Sequence[Path], questions: Questions) -> Iterator[Read]:
    """Yield one dialogue a question. In either layout: sessions beside the questions, or under `conversation` in one list."""
    number = 0
    for path in files:
        try:
            held = whole_json(path)
        except BadRow as bad:
            yield Read(path, 0, bad)
            continue
        for place, sample in enumerate(held if isinstance(held, list) else [held]):
            try:
                talk = Talk(sample, file_name(path), place, questions)
            except (KeyError, TypeError, ValueError, AttributeError) as fault:
                yield Read(
                    path,
                    place + 1,
                    BadRow("wrong_type", f"conversation {place}: {type(fault).__name__}: {fault}"),
                )
                continue
            for question in sample["qa"]:
                made = attempt(talk.asked, question, number)
                yield Read(path, place + 1, made, shown(question), talk.history)
                number += 1


class Talk:
    """One conversation: what was said before the questions."""

    def __init__(
        self, sample: Mapping[str, Any], file: str, place: int, questions: Questions
    ) -> None:
        self._questions = questions
        said_in = sample.get("conversation", sample)
        self._user, self._assistant = str(said_in["speaker_a"]), str(said_in["speaker_b"])
        name = str(sample.get("sample_id", file.partition(".")[0]))
        self._info = {"sample_id": name, "source_file": file, "line_index": place}
        self._place_of: dict[str, int] = {}
        turns = [turn for number in _sessions(said_in) for turn in self._session(said_in, number)]
        for number, turn in enumerate(turns, 1):
            turn.turn_id = number
            if "raw_id" in turn.turn_labels:
                self._place_of[turn.turn_labels["raw_id"].strip()] = number
        self._last = turns.pop() if turns and turns[-1].role == "user" else None
        self.history = turns

    def _session(self, said_in: Mapping[str, Any], number: int) -> Iterator[NormalTurn]:
        """Its utterances. The date stands in the first one, or in a message of its own where the assistant opens."""
        date = str(said_in.get(f"session_{number}_date_time", ""))
        for place, item in enumerate(said_in[f"session_{number}"]):
            is_user = item["speaker"] == self._user
            text = item["text"] + (
                f" [shared {item['blip_caption']}]" if "blip_caption" in item else ""
            )
            if place == 0 and not is_user:
                yield said("user", f"DATE: {date}", raw_date_time=date)
            elif place == 0:
                text = f"DATE: {date}\n\n{text}"
            yield said(
                "user" if is_user else "assistant", text, raw_id=item["dia_id"], raw_date_time=date
            )

    def asked(self, row: Mapping[str, Any], number: int) -> NormalDialog:
        """The dialogue of one question. A last message of the user takes the question in, so that two never follow each other."""
        category = int(row["category"])
        has_answer = "answer" in row
        if not has_answer and category != ADVERSARIAL:
            raise BadRow("missing_field", "answer")
        answer = str(row["answer"]) if has_answer else UNANSWERABLE
        question, before = self._question(row, category, answer), self._last
        system = said(
            "system",
            self._questions.render("locomo_system", user=self._user, assistant=self._assistant),
        )
        opening = said("user", f"{before.content}\n\n{question}" if before else question)
        metric = {
            1: measured("f1_score", multi_answer=True),
            ADVERSARIAL: measured("recall", binary=True),
        }
        last = asked(
            answer,
            metric.get(category, measured("f1_score")),
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
        asked_for = {"question": str(row["question"])}
        if category == ADVERSARIAL:
            first, second = (
                (answer, "Not mentioned in the conversation") if isinstance(answer, str) else answer
            )
            return self._questions.render("locomo_choice", **asked_for, first=first, second=second)
        return self._questions.render(
            "locomo_date_question" if category == TEMPORAL else "locomo_question", **asked_for
        )

    def _evidence(self, names: Sequence[str]) -> list[int]:
        """Turns that hold the answer; names that are in no session are left out."""
        split = [
            part
            for name in names
            for part in (re.split(r"[; ]+", name) if ";" in name else [name.strip()])
        ]
        return [self._place_of[name] for name in split if name in self._place_of]


def _sessions(said_in: Mapping[str, Any]) -> list[int]:
    return sorted(int(match.group(1)) for name in said_in if (match := _SESSION.fullmatch(name)))


DATASET = Dataset(
    "locomo",
    "LoCoMo: questions after a talk of hundreds of turns; reference history",
    find,
    read,
    questions=QUESTIONS,
)

"""Conversion of normalised dialogues to Parley's and back.

Values for which Parley has no column are stored in labels whose names begin with `_`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.content_id import canonical_json, content_id
from schemas.dialog import EDITION, Context, Dialog, MetricSpec, Role, Turn
from schemas.problem import BASE_INSTRUCTION, NO_TESTS, Instruction, Problem
from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.unidial.datasets import metrics_of
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    NormalDialog,
    NormalTurn,
    RawDialog,
)

NAME = "unidial"
DATASET, REFERENCE_HISTORY, REFERENCES = "_dataset", "_reference_history", "_references"
_RAW_INFO, _LABELS, _TAIL, _RAW = "_raw_info", "_labels", "_tail", "_raw"
_DOCUMENT, _SOURCE, _DERIVED = "_reference_document", "_dynamic_config_source", "_derived"
_TURN_ID = "_turn_id"
"""Label with a turn's id if it differs from its position.

This is the case for the last two turns of 499 LoCoMo dialogues.
"""
MOST_PLAYED = 20
"""Maximum number of scripted turns before the first answer that are replayed one by one.

Longer histories become a context, which episodes do not repeat.
"""


@dataclass(frozen=True)
class StagedDialog:
    """Rows made from one dialogue."""

    problem: Problem
    dialog: Dialog
    context: Context | None


@dataclass(frozen=True)
class Place:
    """Origin of a dialogue."""

    dataset: Dataset | None
    """Dataset that defines the metrics. None if only the normalised form is known."""
    name: str
    """Name of the dataset. Empty if unknown."""
    version: str
    file: str
    identity: str
    """Id of the problem and of the dialog."""
    edition: str = ""
    """Digest of the question templates in `--templates DIR`. Empty without such templates."""


class Contexts:
    """Contexts of shared histories.

    The latest one is cached, since rows with the same history are consecutive.
    """

    def __init__(self) -> None:
        self._history: Sequence[NormalTurn] = ()
        self._latest: Context | None = None

    def of(self, history: Sequence[NormalTurn], version: str, exact: bool, first: int) -> Context:
        """Return the context of the turns that start at position `first` of the dialogue."""
        if self._latest is None or history is not self._history:
            self._history, self._latest = (
                history,
                Context.of(NAME, version, _context(history, exact, first)),
            )
        return self._latest


def make_rows(
    raw: RawDialog, normal: NormalDialog, place: Place, contexts: Contexts
) -> StagedDialog:
    """Return the rows of one dialogue.

    Raises:
        BadRow: nothing_to_answer, no_alternation, blank_text or missing_reference.
    """
    cut = _Cut(normal, raw.history, raw.n_history)
    by_reference = normal.dialog_eval_config.use_reference_history
    _check(cut.own, by_reference)
    dataset, exact = place.dataset, raw.is_normalised
    n_system, n_before = len(cut.system), len(cut.before)
    context = contexts.of(cut.shared, place.version, exact, n_system) if cut.before else None
    digest = content_id(
        {
            "dataset": place.name,
            "dialog": [_without_answers(turn) for turn in (*cut.system, *cut.own)],
            "about": _about(normal),
        }
    )
    turns = [_turn(turn, 1, dataset, exact, n) for n, turn in enumerate(cut.system)]
    turns += [
        _turn(turn, n // 2 + 1, dataset, exact, n_system + n_before + n)
        for n, turn in enumerate(cut.own)
    ]
    dialog = Dialog(
        benchmark=NAME,
        dataset_version=place.version,
        dialog_id=place.identity,
        problem_id=place.identity,
        turns=tuple(turns),
        labels=(
            *_labels(normal, place.name, cut.tail, exact),
            *(((EDITION, place.edition),) if place.edition else ()),
        ),
        row_digest=digest,
        context_id=context.context_id if context else None,
        context_turns=n_before,
    )
    return StagedDialog(
        _problem(dialog, cut, place.name or "unnamed", place.file, max(1, raw.line)),
        dialog,
        context,
    )


class _Cut:
    """Turns of a dialogue by use: system, context, played, and those after the last answer."""

    def __init__(
        self, normal: NormalDialog, history: Sequence[NormalTurn], n_history: int | None
    ) -> None:
        turns = normal.dialog_turns
        n_system = next((n for n, turn in enumerate(turns) if turn.role != "system"), len(turns))
        self.system, rest = turns[:n_system], turns[n_system:]
        answers = [place for place, turn in enumerate(rest) if turn.is_generated]
        if not answers:
            raise BadRow(
                "nothing_to_answer", "no turn has do_eval, so the model has nothing to answer"
            )
        opening = answers[0] - 1
        if opening < 0:
            raise BadRow("no_alternation", "there is no question before the first answer")
        before, self.own, self.tail = (
            rest[:opening],
            rest[opening : answers[-1] + 1],
            rest[answers[-1] + 1 :],
        )
        self.before: Sequence[NormalTurn] = history[:n_history]
        self.shared = history
        """Turns of the context: the turns before the dialogue, or a longer history."""
        self.question = rest[opening].content or ""
        if history and before:
            raise BadRow(
                "no_alternation", "there are turns between the shared history and the question"
            )
        if before and (len(before) > MOST_PLAYED or not _is_regular(before)):
            self.before = self.shared = before
        else:
            self.own = [*before, *self.own]


def _is_regular(turns: Sequence[NormalTurn]) -> bool:
    """Return True if user and assistant alternate and no message is blank."""
    roles = ["user", "assistant"] * (len(turns) // 2)
    return [turn.role for turn in turns] == roles and all(
        (turn.content or "").strip() for turn in turns
    )


def _check(own: Sequence[NormalTurn], by_reference: bool) -> None:
    for place, turn in enumerate(own):
        if turn.role != ("user", "assistant")[place % 2]:
            raise BadRow(
                "no_alternation", f"turn {turn.turn_id}: the role {turn.role} does not alternate"
            )
        if not turn.is_generated and not (turn.content or "").strip():
            raise BadRow(
                "blank_text",
                f"turn {turn.turn_id}: the scripted message of role {turn.role} is blank",
            )
        if by_reference and turn.is_generated and turn.reference is None and place < len(own) - 1:
            raise BadRow(
                "missing_reference",
                f"turn {turn.turn_id} has no reference, but later turns require it",
            )


def _about(normal: NormalDialog) -> dict[str, Any]:
    return normal.model_dump(exclude={"dialog_turns"})


def _without_answers(turn: NormalTurn) -> dict[str, Any]:
    """Return the turn's fields, without the content if the model under test generates the turn."""
    fields = turn.model_dump()
    return fields | {"content": None} if turn.is_generated else fields


def _context(turns: Sequence[NormalTurn], exact: bool, first: int) -> tuple[Turn, ...]:
    """Return the context's turns, in which each user message starts a round."""
    context_turns, number = list[Turn](), 0
    for place, turn in enumerate(turns, first):
        number += turn.role == "user" or not number
        context_turns.append(_turn(turn, number, None, exact, place))
    return tuple(context_turns)


def _turn(turn: NormalTurn, number: int, dataset: Dataset | None, exact: bool, place: int) -> Turn:
    config = turn.eval_config
    derived = (
        metrics_of(dataset, config.dynamic_config_source)
        if turn.is_generated and not config.metrics
        else ()
    )
    labels = _plain(turn.turn_labels)
    beside = {
        _LABELS: None if labels == turn.turn_labels else turn.turn_labels,
        _DOCUMENT: turn.reference_document,
        _SOURCE: config.dynamic_config_source or None,
        REFERENCES: turn.reference
        if isinstance(turn.reference, list) or not turn.is_generated
        else None,
        _DERIVED: True if derived else None,
        _TURN_ID: turn.turn_id if exact and turn.turn_id != place else None,
    }
    first = (
        turn.reference[0] if isinstance(turn.reference, list) and turn.reference else turn.reference
    )
    turn_row = Turn(
        turn=number,
        role=Role(turn.role),
        content=None if turn.is_generated else turn.content,
        do_eval=config.do_eval if turn.role == "assistant" else None,
        reference=first if turn.is_generated and isinstance(first, str) else None,
        labels=(
            *labels.items(),
            *((name, _json(value)) for name, value in beside.items() if value is not None),
        ),
        metrics=tuple(
            MetricSpec(
                name=metric.class_name,
                arguments=tuple((name, _json(value)) for name, value in metric.args.items()),
            )
            for metric in (config.metrics or derived)
        ),
    )
    if not exact:
        return turn_row
    raw = turn.model_dump(exclude_unset=True) | ({"content": None} if turn.is_generated else {})
    if "content" not in turn.model_fields_set:
        raw.pop("content", None)
    same = to_normal_turn(turn_row, place) == raw
    return (
        turn_row
        if same
        else turn_row.model_copy(update={"labels": (*turn_row.labels, (_RAW, _json(raw)))})
    )


def _plain(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return the data's labels as text, without None and without names that begin with `_`."""
    return {
        name: str(value)
        for name, value in labels.items()
        if value is not None and not name.startswith("_")
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _labels(
    normal: NormalDialog, name: str, tail: Sequence[NormalTurn], exact: bool
) -> tuple[tuple[str, str], ...]:
    data_labels = normal.dialog_labels
    labels = _plain(data_labels)
    beside: dict[str, Any] = {
        DATASET: name,
        REFERENCE_HISTORY: normal.dialog_eval_config.use_reference_history,
        _RAW_INFO: normal.dialog_raw_info,
        "_dialog_id": normal.dialog_id,
        _LABELS: None if labels == data_labels else data_labels,
        _TAIL: [turn.model_dump(exclude_unset=exact) for turn in tail] or None,
    }
    if exact:
        raw = normal.model_dump(exclude_unset=True, exclude={"dialog_turns"})
        plain = _about(normal)
        beside[_RAW] = raw if raw != plain else None
    return (
        *labels.items(),
        *((key, _json(value)) for key, value in beside.items() if value is not None),
    )


def _problem(dialog: Dialog, cut: _Cut, level: str, file: str, line: int) -> Problem:
    gold = {
        str(turn.turn): turn.reference
        for turn in dialog.turns
        if turn.is_generated and turn.reference is not None
    }
    return Problem(
        benchmark=NAME,
        dataset_version=dialog.dataset_version,
        problem_id=dialog.problem_id,
        level=level,
        prompt=cut.question,
        instructions=(
            Instruction(instruction_id=BASE_INSTRUCTION, text=cut.question, suite=NO_TESTS),
        ),
        reference_code=canonical_json(gold) if gold else "",
        source_file=file,
        source_line=line,
        row_digest=dialog.row_digest,
    )


def labels_of(owner: Dialog | Turn) -> Mapping[str, Any]:
    """Return the labels in which Parley stores values that have no column, by name."""
    return {
        name: json.loads(value)
        for name, value in owner.labels
        if name.startswith("_") and name != EDITION
    }


def label_of(owner: Dialog | Turn, name: str) -> Any:
    """Return a single value of `labels_of`, or None.

    Other labels, which may be long, are not parsed.
    """
    return next((json.loads(value) for key, value in owner.labels if key == name), None)


def to_normal_turn(turn: Turn, number: int) -> dict[str, Any]:
    """Return the turn in the normalised form.

    Args:
        turn: Turn to convert.
        number: 0-based position in the dialogue, which is the turn's id unless the data state
            another.
    """
    beside = labels_of(turn)
    if _RAW in beside:
        return beside[_RAW]
    metrics = () if _DERIVED in beside else turn.metrics
    metric_rows = [
        {
            "class_name": metric.name,
            "args": {key: json.loads(value) for key, value in metric.arguments},
        }
        for metric in metrics
    ]
    return {
        "turn_id": beside.get(_TURN_ID, number),
        "role": turn.role.value,
        "content": turn.content,
        "reference": beside.get(REFERENCES, turn.reference),
        "reference_document": beside.get(_DOCUMENT),
        "eval_config": {
            "do_eval": bool(turn.do_eval),
            "metrics": metric_rows,
            "dynamic_config_source": beside.get(_SOURCE, {}),
        },
        "turn_labels": beside.get(
            _LABELS, {name: value for name, value in turn.labels if not name.startswith("_")}
        ),
    }


def to_normal_dialog(dialog: Dialog, context: Sequence[Turn]) -> dict[str, Any]:
    """Return the dialogue in the normalised form, without answers of the model under test.

    Args:
        dialog: Dialog to convert.
        context: Turns of the shared context before the dialog.
    """
    beside = labels_of(dialog)
    n_system = next(n for n, turn in enumerate(dialog.turns) if turn.role is not Role.SYSTEM)
    turns = (*dialog.turns[:n_system], *context[: dialog.context_turns], *dialog.turns[n_system:])
    labels = {name: value for name, value in dialog.labels if not name.startswith("_")}
    about = {
        "dialog_id": beside["_dialog_id"],
        "dialog_raw_info": beside[_RAW_INFO],
        "dialog_labels": beside.get(_LABELS, labels),
        "dialog_eval_config": {"use_reference_history": beside[REFERENCE_HISTORY]},
    }
    normal_turns = [to_normal_turn(turn, number) for number, turn in enumerate(turns)]
    return beside.get(_RAW, about) | {"dialog_turns": [*normal_turns, *beside.get(_TAIL, ())]}


def turns_with_ids(dialog: Dialog) -> Iterator[tuple[int, Turn]]:
    """Yield (id in the normalised data, turn) for each turn except system and context turns."""
    n_system = next(n for n, turn in enumerate(dialog.turns) if turn.role is not Role.SYSTEM)
    for place, turn in enumerate(dialog.turns[n_system:], n_system + dialog.context_turns):
        yield to_normal_turn(turn, place)["turn_id"], turn

"""A-Mem (Xu et al. 2025): each round is a note with keywords, tags and context; notes are linked, and new ones change old ones.

For a question the notes most like it are recalled, with those that they are linked to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tasks.dialogue.agents.contract import Agent
from tasks.dialogue.agents.memory.remembering import (
    PROMPTS,
    Ask,
    Embed,
    Recalled,
    Thinking,
    Unit,
    in_order,
    listed,
    read_object,
    remembering,
    shown_as,
    text_in,
    texts_in,
)
from tasks.language.prompt import fill

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

NAME, NEIGHBOURS = "a-mem", 5


@dataclass
class Note:
    """A round with what the model noted about it."""

    unit: Unit
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    context: str = ""
    links: set[int] = field(default_factory=set[int])
    """Numbers of the notes that it goes with."""

    @property
    def about(self) -> str:
        """What was noted, in a line."""
        noted = (
            ("About", self.context),
            ("Keywords", ", ".join(self.keywords)),
            ("Tags", ", ".join(self.tags)),
        )
        return " ".join(f"{name}: {text}." for name, text in noted if text)

    @property
    def text(self) -> str:
        """What it is found by."""
        return "\n".join(part for part in (self.unit.text, self.about) if part)

    @property
    def shown(self) -> str:
        """What a model reads: round and notes, none of which can imitate another."""
        return shown_as(user=self.unit.user, assistant=self.unit.assistant, about=self.about)


class Notes:
    """All notes, by the number of their round."""

    def __init__(self) -> None:
        self._notes: dict[int, Note] = {}

    def add(self, unit: Unit) -> Thinking[None]:
        """Note a round, link it, and let it change the notes that it belongs to."""
        reply = yield Ask("note", fill(PROMPTS["a_mem_note"], round=unit.shown))
        told = read_object(reply)
        note = Note(
            unit,
            texts_in(told.get("keywords")),
            texts_in(told.get("tags")),
            text_in(told.get("context")),
        )
        near = yield from self._nearest(note.text, NEIGHBOURS)
        self._notes[unit.number] = note
        if near:
            shown = "\n\n".join(in_order([(one.unit.number, one.shown) for one in near]))
            reply = yield Ask(
                "links", fill(PROMPTS["a_mem_links"], note=note.shown, neighbours=shown)
            )
            self._link(note, {one.unit.number: one for one in near}, read_object(reply))

    def recall(self, question: str, most: int) -> Thinking[Recalled]:
        """The notes most like the question, and as many at most that they are linked to."""
        found = yield from self._nearest(question, most)
        chosen = {note.unit.number: note for note in found}
        linked = dict.fromkeys(
            number for note in found for number in sorted(note.links) if number not in chosen
        )
        chosen |= {number: self._notes[number] for number in [*linked][:most]}
        return Recalled(in_order([(number, note.shown) for number, note in chosen.items()]))

    def _nearest(self, text: str, most: int) -> Thinking[list[Note]]:
        notes = list(self._notes.values())
        if not notes:
            return []
        vectors: Mapping[str, Vector] = yield Embed((text, *(note.text for note in notes)))
        own = vectors.get(text)
        likeness = {
            n.unit.number: float(own @ vectors[n.text])
            if own is not None and n.text in vectors
            else -1.0
            for n in notes
        }
        return sorted(notes, key=lambda note: (-likeness[note.unit.number], -note.unit.number))[
            :most
        ]

    def _link(self, note: Note, near: Mapping[int, Note], told: Mapping[str, Any]) -> None:
        """Do what the model says of links, and of what the neighbours are about now."""
        numbered = {str(number): number for number in near}
        for number in (numbered.get(str(one)) for one in listed(told.get("links"))):
            if number is not None:
                note.links.add(number)
                near[number].links.add(note.unit.number)
        note.tags = texts_in(told.get("tags")) or note.tags
        changed = told.get("neighbours")
        for number, said in changed.items() if isinstance(changed, dict) else ():
            other = near.get(numbered.get(number, 0))
            if other is not None and isinstance(said, dict):
                other.context = text_in(said.get("context")) or other.context
                other.tags = texts_in(said.get("tags")) or other.tags


AGENT = Agent(
    name=NAME,
    version="3",
    help="remembers rounds as notes that are linked and change each other (A-Mem's method)",
    begin=remembering(Notes, NAME),
    prompts={name: PROMPTS[name] for name in ("recalled", "a_mem_note", "a_mem_links")},
    calls_per_turn=3,
    calls_per_context_round=2,
    needs_embedder=True,
)

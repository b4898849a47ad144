"""A-Mem (Xu et al. 2025): rounds as notes with keywords, tags and context.

Notes are linked, and a new note may change older ones. For a question, the most similar notes and
their linked notes are recalled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tasks.dialogue.agents.memory.contract import (
    Ask,
    Embed,
    Recalled,
    Thinking,
    Unit,
    in_order,
    labelled_line,
    list_in,
    read_object,
    text_in,
    texts_in,
)
from tasks.dialogue.agents.memory.memory_subject import PROMPTS, memory_agent
from tasks.language.prompt import fill

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

NEIGHBOURS = 5


@dataclass
class Note:
    """Round of the conversation with the model's notes about it."""

    unit: Unit
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    context: str = ""
    links: set[int] = field(default_factory=set[int])
    """Round numbers of the notes that this note is linked to."""

    @property
    def about(self) -> str:
        """Return context, keywords and tags in one line."""
        fields = (
            ("About", self.context),
            ("Keywords", ", ".join(self.keywords)),
            ("Tags", ", ".join(self.tags)),
        )
        return " ".join(f"{name}: {text}." for name, text in fields if text)

    @property
    def text(self) -> str:
        """Return the text whose vector represents the note."""
        return "\n".join(part for part in (self.unit.text, self.about) if part)

    @property
    def shown(self) -> str:
        """Return the round and its note for a model, quoted so that no part can imitate another."""
        return labelled_line(user=self.unit.user, assistant=self.unit.assistant, about=self.about)


class Notes:
    """Memory of notes, each with the number of its round."""

    def __init__(self) -> None:
        self._notes: dict[int, Note] = {}

    def add(self, unit: Unit) -> Thinking[None]:
        """Add a note about a round, link it, and update related notes."""
        reply = yield Ask("note", fill(PROMPTS["a_mem_note"], round=unit.shown))
        fields = read_object(reply)
        note = Note(
            unit,
            texts_in(fields.get("keywords")),
            texts_in(fields.get("tags")),
            text_in(fields.get("context")),
        )
        neighbours = yield from self._nearest(note.text, NEIGHBOURS)
        self._notes[unit.number] = note
        if neighbours:
            shown = "\n\n".join(in_order([(near.unit.number, near.shown) for near in neighbours]))
            reply = yield Ask(
                "links", fill(PROMPTS["a_mem_links"], note=note.shown, neighbours=shown)
            )
            self._link(note, {near.unit.number: near for near in neighbours}, read_object(reply))

    def recall(self, question: str, most: int) -> Thinking[Recalled]:
        """Return up to `most` of the most similar notes, and up to as many linked notes."""
        nearest = yield from self._nearest(question, most)
        chosen = {note.unit.number: note for note in nearest}
        linked = dict.fromkeys(
            number for note in nearest for number in sorted(note.links) if number not in chosen
        )
        chosen |= {number: self._notes[number] for number in [*linked][:most]}
        return Recalled(in_order([(number, note.shown) for number, note in chosen.items()]))

    def _nearest(self, text: str, most: int) -> Thinking[list[Note]]:
        notes = list(self._notes.values())
        if not notes:
            return []
        vectors: Mapping[str, Vector] = yield Embed((text, *(note.text for note in notes)))
        vector = vectors.get(text)
        similarity = {
            n.unit.number: float(vector @ vectors[n.text])
            if vector is not None and n.text in vectors
            else -1.0
            for n in notes
        }
        return sorted(notes, key=lambda note: (-similarity[note.unit.number], -note.unit.number))[
            :most
        ]

    def _link(self, note: Note, neighbours: Mapping[int, Note], fields: Mapping[str, Any]) -> None:
        """Apply the model's answer: links of the note, and new contexts and tags of neighbours."""
        numbered = {str(number): number for number in neighbours}
        for number in (numbered.get(str(link)) for link in list_in(fields.get("links"))):
            if number is not None:
                note.links.add(number)
                neighbours[number].links.add(note.unit.number)
        note.tags = texts_in(fields.get("tags")) or note.tags
        changed = fields.get("neighbours")
        for number, update in changed.items() if isinstance(changed, dict) else ():
            other = neighbours.get(numbered.get(number, 0))
            if other is not None and isinstance(update, dict):
                other.context = text_in(update.get("context")) or other.context
                other.tags = texts_in(update.get("tags")) or other.tags


AGENT = memory_agent(
    "a-mem",
    "stores rounds as linked notes that update each other (A-Mem's method)",
    Notes,
    ("a_mem_note", "a_mem_links"),
    calls_per_context_round=2,
)

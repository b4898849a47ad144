"""MemoryOS (Kang et al. 2025): the last rounds as they were, older ones in segments by subject, and what lasts about the user.

A round that no longer fits into the short-term store becomes a page: of the segment that is most like it in meaning and keywords,
or of a new one. A segment is the hotter the more often it was recalled, the more new pages it has and the less long ago it was
used; from a certain heat on, these pages go into the profile and the facts of the long-term store. Time is counted in rounds.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tasks.dialogue.agents.contract import Agent
from tasks.dialogue.agents.memory.remembering import (
    PROMPTS,
    Ask,
    Embed,
    Recalled,
    Thinking,
    Unit,
    in_order,
    read_object,
    remembering,
    text_in,
    texts_in,
)
from tasks.language.prompt import fill

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

NAME = "memoryos"
SHORT_TERM, SEGMENTS_READ, MOST_FACTS = 7, 5, 100
"""Rounds in the short-term store; segments whose pages are looked at for a question; facts of each kind that are kept."""
JOINS, HOT, FADES = 0.6, 5.0, 10.0
"""Likeness from which a page joins a segment; heat from which it is read for what lasts; rounds in which recency falls to 1/e."""


@dataclass
class Segment:
    """Pages on one subject."""

    subject: str
    keywords: set[str]
    pages: list[Unit] = field(default_factory=list[Unit])
    visits: int = 0
    used_at: int = 0
    n_read: int = 0
    """Pages that the long-term store has taken in."""

    def heat(self, now: int) -> float:
        """Visits, new pages and recency, each with weight 1."""
        return self.visits + len(self.pages) - self.n_read + math.exp((self.used_at - now) / FADES)


class Stores:
    """Short-, mid- and long-term store."""

    def __init__(self) -> None:
        self._recent: deque[Unit] = deque()
        self._segments: list[Segment] = []
        self._profile = ""
        self._facts: dict[str, list[str]] = {"user": [], "assistant": []}
        self._now = 0

    def add(self, unit: Unit) -> Thinking[None]:
        """Take a round into the short-term store; the oldest goes on to a segment where there is no room."""
        self._now = unit.number
        self._recent.append(unit)
        if len(self._recent) > SHORT_TERM:
            segment = yield from self._file(self._recent.popleft())
            if segment.heat(self._now) >= HOT:
                yield from self._learn(segment)

    def recall(self, question: str, most: int) -> Thinking[Recalled]:
        """The last rounds, the pages most like the question, and what lasts."""
        recent, memories = tuple(self._recent), list[str]()
        if self._segments:
            pages = yield from self._pages(question, most)
            memories += in_order([(page.number, page.shown) for page in pages])
        if self._profile:
            memories.append(f"The user: {' '.join(self._profile.split())}")
        for who, facts in self._facts.items():
            if facts:
                near = yield from _nearest(question, facts, most)
                memories.append(
                    "\n".join(
                        (f"Known of the {who}:", *(f"- {' '.join(fact.split())}" for fact in near))
                    )
                )
        return Recalled(tuple(memories), recent)

    def _file(self, page: Unit) -> Thinking[Segment]:
        reply = yield Ask("page", fill(PROMPTS["memoryos_page"], round=page.shown))
        told = read_object(reply)
        subject, keywords = (
            text_in(told.get("subject")) or page.text,
            {word.lower() for word in texts_in(told.get("keywords"))},
        )
        likeness = yield from self._likeness(subject, keywords)
        best = max(range(len(likeness)), key=likeness.__getitem__, default=None)
        if best is None or likeness[best] < JOINS:
            segment = Segment(subject, keywords)
            self._segments.append(segment)
        else:
            segment = self._segments[best]
            segment.keywords |= keywords
        segment.pages.append(page)
        segment.used_at = self._now
        return segment

    def _likeness(self, text: str, keywords: set[str]) -> Thinking[list[float]]:
        """Of a text to each segment: of meaning, from -1 to 1, and the share of keywords that both have."""
        vectors: Mapping[str, Vector] = yield Embed(
            (text, *(segment.subject for segment in self._segments))
        )
        return [
            _product(vectors, text, segment.subject)
            + len(keywords & segment.keywords) / max(1, len(keywords | segment.keywords))
            for segment in self._segments
        ]

    def _pages(self, question: str, most: int) -> Thinking[list[Unit]]:
        words = {word.lower().strip(".,;:!?\"'()") for word in question.split()}
        likeness = yield from self._likeness(question, words)
        order = sorted(range(len(likeness)), key=lambda place: (-likeness[place], -place))[
            :SEGMENTS_READ
        ]
        pages = {
            page.text: (page, self._segments[place])
            for place in order
            for page in self._segments[place].pages
        }
        near = yield from _nearest(question, list(pages), most)
        for segment in {id(pages[text][1]): pages[text][1] for text in near}.values():
            segment.visits += 1
            segment.used_at = self._now
        return [pages[text][0] for text in near]

    def _learn(self, segment: Segment) -> Thinking[None]:
        """Take what lasts from a hot segment's new pages."""
        shown = "\n\n".join(page.shown for page in segment.pages[segment.n_read :])
        reply = yield Ask(
            "profile", fill(PROMPTS["memoryos_profile"], profile=self._profile or "-", rounds=shown)
        )
        told = read_object(reply)
        self._profile = text_in(told.get("profile")) or self._profile
        for who, facts in self._facts.items():
            new = [fact for fact in texts_in(told.get(who)) if fact not in facts]
            self._facts[who] = [*facts, *new][-MOST_FACTS:]
        segment.n_read, segment.visits = len(segment.pages), 0


def _nearest(question: str, texts: Sequence[str], most: int) -> Thinking[list[str]]:
    vectors: Mapping[str, Vector] = yield Embed((question, *texts))
    order = sorted(
        range(len(texts)), key=lambda place: (-_product(vectors, question, texts[place]), -place)
    )
    return [texts[place] for place in order[:most]]


def _product(vectors: "Mapping[str, Vector]", first: str, second: str) -> float:
    return (
        float(vectors[first] @ vectors[second]) if first in vectors and second in vectors else 0.0
    )


AGENT = Agent(
    name=NAME,
    version="3",
    help="remembers the last rounds, older ones by subject, and what lasts about the user (MemoryOS's method)",
    begin=remembering(Stores, NAME),
    prompts={name: PROMPTS[name] for name in ("recalled", "memoryos_page", "memoryos_profile")},
    calls_per_turn=3,
    calls_per_context_round=2,
    needs_embedder=True,
)

"""MemoryOS (Kang et al. 2025): recent rounds verbatim, older rounds by subject, and a user profile.

When the short-term store is full, its oldest round becomes a page of the segment with the most
similar meaning and keywords, or of a new segment. A segment is hot if it was recalled often, has
many new pages, or was used recently. The new pages of a hot segment update the profile and facts of
the long-term store. Time is counted in rounds.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tasks.dialogue.agents.memory.contract import (
    Ask,
    Embed,
    Recalled,
    Thinking,
    Unit,
    in_order,
    read_object,
    text_in,
    texts_in,
)
from tasks.dialogue.agents.memory.memory_subject import PROMPTS, memory_agent
from tasks.language.prompt import fill

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

SHORT_TERM, SEGMENTS_READ, MOST_FACTS = 7, 5, 100
"""Rounds in the short-term store, segments searched per question, maximum facts of each kind."""
JOINS, HOT, FADES = 0.6, 5.0, 10.0
"""Similarity for joining a segment, heat for learning from it, rounds until recency is 1/e."""


@dataclass
class Segment:
    """Segment of the mid-term store: pages (older rounds) on one subject."""

    subject: str
    keywords: set[str]
    pages: list[Unit] = field(default_factory=list[Unit])
    visits: int = 0
    used_at: int = 0
    n_read: int = 0
    """Number of the segment's pages that have already updated the long-term store."""

    def heat(self, now: int) -> float:
        """Return the sum of visits, new pages and recency, each with weight 1."""
        return self.visits + len(self.pages) - self.n_read + math.exp((self.used_at - now) / FADES)


class Stores:
    """Short-term, mid-term and long-term stores."""

    def __init__(self) -> None:
        self._recent: deque[Unit] = deque()
        self._segments: list[Segment] = []
        self._profile = ""
        self._facts: dict[str, list[str]] = {"user": [], "assistant": []}
        self._now = 0

    def add(self, unit: Unit) -> Thinking[None]:
        """Add a round to the short-term store.

        If the store is full, move its oldest round to a segment.
        """
        self._now = unit.number
        self._recent.append(unit)
        if len(self._recent) > SHORT_TERM:
            segment = yield from self._file(self._recent.popleft())
            if segment.heat(self._now) >= HOT:
                yield from self._learn(segment)

    def recall(self, question: str, most: int) -> Thinking[Recalled]:
        """Return the recent rounds, the pages most similar to the question, and long-term facts."""
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
        fields = read_object(reply)
        subject, keywords = (
            text_in(fields.get("subject")) or page.text,
            {word.lower() for word in texts_in(fields.get("keywords"))},
        )
        similarity = yield from self._similarity(subject, keywords)
        best = max(range(len(similarity)), key=similarity.__getitem__, default=None)
        if best is None or similarity[best] < JOINS:
            segment = Segment(subject, keywords)
            self._segments.append(segment)
        else:
            segment = self._segments[best]
            segment.keywords |= keywords
        segment.pages.append(page)
        segment.used_at = self._now
        return segment

    def _similarity(self, text: str, keywords: set[str]) -> Thinking[list[float]]:
        """Return the similarity of a text to each segment.

        It is the sum of the vectors' product (-1 to 1) and the share of common keywords.
        """
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
        similarity = yield from self._similarity(question, words)
        order = sorted(range(len(similarity)), key=lambda index: (-similarity[index], -index))[
            :SEGMENTS_READ
        ]
        pages = {
            page.text: (page, self._segments[index])
            for index in order
            for page in self._segments[index].pages
        }
        near = yield from _nearest(question, list(pages), most)
        for segment in {id(pages[text][1]): pages[text][1] for text in near}.values():
            segment.visits += 1
            segment.used_at = self._now
        return [pages[text][0] for text in near]

    def _learn(self, segment: Segment) -> Thinking[None]:
        """Update profile and facts from a hot segment's new pages."""
        shown = "\n\n".join(page.shown for page in segment.pages[segment.n_read :])
        reply = yield Ask(
            "profile", fill(PROMPTS["memoryos_profile"], profile=self._profile or "-", rounds=shown)
        )
        fields = read_object(reply)
        self._profile = text_in(fields.get("profile")) or self._profile
        for who, facts in self._facts.items():
            new = [fact for fact in texts_in(fields.get(who)) if fact not in facts]
            self._facts[who] = [*facts, *new][-MOST_FACTS:]
        segment.n_read, segment.visits = len(segment.pages), 0


def _nearest(question: str, texts: Sequence[str], most: int) -> Thinking[list[str]]:
    vectors: Mapping[str, Vector] = yield Embed((question, *texts))
    order = sorted(
        range(len(texts)), key=lambda index: (-_product(vectors, question, texts[index]), -index)
    )
    return [texts[index] for index in order[:most]]


def _product(vectors: "Mapping[str, Vector]", first: str, second: str) -> float:
    return (
        float(vectors[first] @ vectors[second]) if first in vectors and second in vectors else 0.0
    )


AGENT = memory_agent(
    "memoryos",
    "stores recent rounds, older ones by subject, and a user profile (MemoryOS's method)",
    Stores,
    ("memoryos_page", "memoryos_profile"),
    calls_per_context_round=2,
)

"""HippoRAG (Gutierrez et al. 2024): a graph of entities and passages, searched by personalised PageRank.

Each round is a passage. The model names its entities and what is said between them; entities that mean nearly the same are
joined. For a question the model names the entities, the nearest ones of the graph are the seeds, rarer ones the heavier, and the
passages that the walk comes to most are recalled. Passages are seeds too, as far as they are like the question, with a small
share (HippoRAG 2).
"""

from collections.abc import Mapping, Sequence
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
    text_in,
    texts_in,
)
from tasks.language.prompt import fill

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

NAME = "hipporag"
SYNONYM, DAMPING, PASSAGE_SHARE = 0.8, 0.5, 0.05
"""Likeness from which two entities are joined; chance to go on; weight of a passage beside the seeds."""


class PassageGraph:
    """Passages, their entities, and what joins them."""

    def __init__(self) -> None:
        self._passages: dict[int, Unit] = {}
        """Node -> its round."""
        self._entities: dict[str, int] = {}
        """Name -> its node."""
        self._vectors: dict[str, Vector] = {}
        """Of entities and of passages, by text."""
        self._passages_of: dict[int, set[int]] = {}
        """Entity's node -> the passages that name it."""
        self._edges: dict[tuple[int, int], float] = {}

    def add(self, unit: Unit) -> Thinking[None]:
        """Take a round in as a passage."""
        reply = yield Ask("facts", fill(PROMPTS["hipporag_facts"], passage=unit.text))
        told = read_object(reply)
        triples = [texts for one in listed(told.get("triples")) if len(texts := _named(one)) == 2]
        names = dict.fromkeys([*_plain(texts_in(told.get("entities"))), *(name for pair in triples for name in pair)])
        vectors: Mapping[str, Vector] = yield Embed((unit.text, *(name for name in names if name not in self._entities)))
        self._vectors.update(vectors)
        passage = self._node()
        self._passages[passage] = unit
        self._join_alike([name for name in names if name not in self._entities])
        for name in names:
            node = self._entities[name]
            self._passages_of.setdefault(node, set()).add(passage)
            self._strengthen(node, passage)
        for first, second in triples:
            if first != second:
                self._strengthen(self._entities[first], self._entities[second])

    def recall(self, question: str, most: int) -> Thinking[Recalled]:
        """The passages that the walk from the question's entities comes to most."""
        from tasks.dialogue.agents.memory.pagerank import pagerank

        reply = yield Ask("question", fill(PROMPTS["hipporag_question"], question=question))
        names = _plain(texts_in(read_object(reply).get("entities")))
        vectors: Mapping[str, Vector] = yield Embed((question, *names))
        seeds = [0.0] * self._n_nodes
        for name in names:
            node = self._nearest(name, vectors)
            if node is not None:
                seeds[node] += 1 / len(self._passages_of[node])
        for passage, unit in self._passages.items():
            alike = _likeness(vectors.get(question), self._vectors.get(unit.text))
            seeds[passage] = PASSAGE_SHARE * max(alike, 0.0)
        if not any(seeds):
            seeds = [float(node in self._passages) for node in range(self._n_nodes)]
        ranks = pagerank(self._n_nodes, self._edges, seeds, DAMPING)
        best = sorted(self._passages, key=lambda passage: (-ranks[passage], -self._passages[passage].number))[:most]
        return Recalled(in_order([(self._passages[one].number, self._passages[one].text) for one in best]))

    @property
    def _n_nodes(self) -> int:
        return len(self._passages) + len(self._entities)

    def _node(self) -> int:
        return self._n_nodes

    def _join_alike(self, new: Sequence[str]) -> None:
        """Make entities, and join each to those before it that mean nearly the same."""
        import numpy as np

        for name in new:
            self._entities[name] = self._node()
        known = [name for name in self._entities if name in self._vectors]
        fresh = [name for name in new if name in self._vectors]
        if not fresh:
            return
        alike = np.stack([self._vectors[name] for name in known]) @ np.stack([self._vectors[name] for name in fresh]).T
        for row, column in np.argwhere(alike >= SYNONYM):
            first, second = self._entities[known[row]], self._entities[fresh[column]]
            if first < second:
                self._strengthen(first, second, float(alike[row, column]))

    def _strengthen(self, first: int, second: int, weight: float = 1.0) -> None:
        pair = (min(first, second), max(first, second))
        self._edges[pair] = self._edges.get(pair, 0.0) + weight

    def _nearest(self, name: str, vectors: "Mapping[str, Vector]") -> int | None:
        """The entity of that name, or the one that is most like it; None in a graph without entities."""
        if name in self._entities or name not in vectors or not self._entities:
            return self._entities.get(name)
        return self._entities[max(self._entities, key=lambda other: _likeness(vectors[name], self._vectors.get(other)))]


def _likeness(first: "Vector | None", second: "Vector | None") -> float:
    return 0.0 if first is None or second is None else float(first @ second)


def _plain(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.lower() for name in names))


def _named(triple: Any) -> tuple[str, ...]:
    """First and last of subject, relation, object; nothing where an answer has something else."""
    parts = listed(triple)
    return tuple(name.lower() for one in (parts[0], parts[-1]) if (name := text_in(one))) if len(parts) == 3 else ()


AGENT = Agent(
    name=NAME,
    version="2",
    help="remembers rounds as passages of a graph of entities, searched by personalised PageRank (HippoRAG's method)",
    begin=remembering(PassageGraph, NAME),
    prompts={name: PROMPTS[name] for name in ("recalled", "hipporag_facts", "hipporag_question")},
    calls_per_turn=3,
    calls_per_context_round=1,
    needs_embedder=True,
)

"""The graph of HippoRAG 2: passages, the entities of their facts, and how likely a walk from a question's facts ends at each.

Formulas and constants are those of the authors' code (OSU-NLP-Group/HippoRAG); `test_hipporag_published.py` compares both.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tasks.dialogue.agents.memory.pagerank import pagerank

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

Fact = tuple[str, str, str]
"""Subject, relation, object."""
SYNONYM, MOST_SYNONYMS, SHORTEST = 0.8, 101, 3
"""Likeness from which two entities are joined; how many are joined to one; letters that an entity must have for it."""
DAMPING, PASSAGE_WEIGHT = 0.5, 0.05
"""Chance to go on; share of a passage's likeness in the weight with which a walk begins there."""
LINKED = 5
"""Facts that are linked to a question, and entities that a walk begins at."""
_NO_LETTER = re.compile(r"[\W_]")


def plain(text: str) -> str:
    """Return a name or relation as the graph has it: small letters and digits, blanks in the place of all else."""
    return _NO_LETTER.sub(" ", text.lower()).strip()


def fact_text(fact: Fact) -> str:
    """Return the text whose vector stands for a fact."""
    return str(fact)


class FactGraph:
    """Passages with their facts. Vectors are given by text; a text without one is like nothing."""

    def __init__(self) -> None:
        self._facts_of: dict[str, tuple[Fact, ...]] = {}
        """Passage -> its facts."""
        self._n_passages_of: dict[str, int] = {}
        """Entity -> number of passages that name it."""
        self._edges: dict[tuple[int, int], float] | None = None

    def add(self, passage: str, facts: Sequence[Fact]) -> None:
        """Take in a passage that is not known yet."""
        self._facts_of[passage] = tuple(facts)
        for entity in dict.fromkeys(name for fact in facts for name in (fact[0], fact[2])):
            self._n_passages_of[entity] = self._n_passages_of.get(entity, 0) + 1
        self._edges = None

    @property
    def passages(self) -> tuple[str, ...]:
        """All passages, in the order in which they came."""
        return tuple(self._facts_of)

    @property
    def entities(self) -> tuple[str, ...]:
        """Subjects and objects of all facts."""
        return tuple(self._n_passages_of)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts, each once."""
        return tuple(dict.fromkeys(fact for facts in self._facts_of.values() for fact in facts))

    def linked_facts(self, vectors: "Mapping[str, Vector]", question: str) -> dict[Fact, float]:
        """Return the facts most like the question with their scores from 0 to 1, the best first."""
        facts = self.facts
        scores = _likeness(vectors, question, tuple(map(fact_text, facts)))
        return {facts[n]: float(scores[n]) for n in np.argsort(-scores, kind="stable")[:LINKED]}

    def dense_scores(self, vectors: "Mapping[str, Vector]", question: str) -> dict[str, float]:
        """Return how like the question each passage is, from 0 to 1."""
        return dict(
            zip(self.passages, _likeness(vectors, question, self.passages).tolist(), strict=True)
        )

    def walk_scores(
        self,
        vectors: "Mapping[str, Vector]",
        question: str,
        chosen: Sequence[Fact],
        scores: Mapping[Fact, float],
    ) -> dict[str, float]:
        """Return for each passage the share of a walk from the chosen facts' entities.

        Args:
            chosen: facts that the question is about; one may stand there twice.
            scores: of these facts, at least.
        """
        entities = {name: place for place, name in enumerate(self.entities)}
        seeds = [0.0] * len(entities) + [
            PASSAGE_WEIGHT * share for share in self.dense_scores(vectors, question).values()
        ]
        for name, weight in self._entity_weights(chosen, scores).items():
            seeds[entities[name]] = weight
        if not any(seeds):
            return self.dense_scores(vectors, question)
        if self._edges is None:
            self._edges = self._joined(vectors, entities)
        ranks = pagerank(len(seeds), self._edges, seeds, DAMPING)
        return dict(zip(self.passages, ranks[len(entities) :], strict=True))

    def _entity_weights(
        self, chosen: Sequence[Fact], scores: Mapping[Fact, float]
    ) -> dict[str, float]:
        """Return the heaviest entities of the facts: the mean of the facts' scores, by the passages that name the entity."""
        weights: dict[str, list[float]] = {}
        for fact in chosen:
            for name in (fact[0], fact[2]):
                weights.setdefault(name, []).append(scores[fact] / self._n_passages_of[name])
        means = {name: sum(values) / len(values) for name, values in weights.items()}
        return dict(sorted(means.items(), key=lambda item: -item[1])[:LINKED])

    def _joined(
        self, vectors: "Mapping[str, Vector]", entities: Mapping[str, int]
    ) -> dict[tuple[int, int], float]:
        """Return the weight of each edge, both ways together.

        A fact weighs 1 each way, and an entity in a passage 1. The likeness of synonyms takes the place of their facts' weight.
        """
        one_way: dict[tuple[int, int], float] = {}
        for place, facts in enumerate(self._facts_of.values(), len(entities)):
            for fact in facts:
                first, second = entities[fact[0]], entities[fact[2]]
                for pair in ((first, second), (second, first)):
                    one_way[pair] = one_way.get(pair, 0.0) + 1.0
                one_way[place, first] = one_way[place, second] = 1.0
        one_way |= _synonyms(vectors, tuple(entities))
        edges: dict[tuple[int, int], float] = {}
        for (first, second), weight in one_way.items():
            if first != second:
                pair = (min(first, second), max(first, second))
                edges[pair] = edges.get(pair, 0.0) + weight
        return edges


def _synonyms(
    vectors: "Mapping[str, Vector]", entities: Sequence[str]
) -> dict[tuple[int, int], float]:
    """Return (entity, entity) -> likeness for those that mean nearly the same, the nearest ones of each."""
    found: dict[tuple[int, int], float] = {}
    if not any(name in vectors for name in entities):
        return found
    matrix = _matrix(vectors, entities)
    alike = matrix @ matrix.T
    np.fill_diagonal(alike, -1.0)
    for place, name in enumerate(entities):
        if len(_NO_LETTER.sub("", name)) >= SHORTEST:
            near = np.flatnonzero(alike[place] >= SYNONYM)
            nearest = near[np.argsort(-alike[place][near], kind="stable")][:MOST_SYNONYMS]
            found |= {(place, int(other)): float(alike[place, other]) for other in nearest}
    return found


def _matrix(
    vectors: "Mapping[str, Vector]", texts: Sequence[str]
) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    nothing = np.zeros_like(next(iter(vectors.values())))
    return np.stack([vectors.get(text, nothing) for text in texts])


def _likeness(
    vectors: "Mapping[str, Vector]", question: str, texts: Sequence[str]
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return how like the question each text is, from 0 for the least to 1 for the most; all 1 where they are equal."""
    if question not in vectors or not texts:
        return np.ones(len(texts))
    likeness = (_matrix(vectors, texts) @ vectors[question]).astype(float)
    width = likeness.max() - likeness.min()
    return np.ones(len(texts)) if width == 0 else (likeness - likeness.min()) / width

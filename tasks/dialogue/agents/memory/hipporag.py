"""HippoRAG 2 (Gutierrez et al. 2025): a graph of facts and passages with personalised PageRank.

Each round is a passage, and the model lists its facts. A question is linked to the most similar
facts, and the model chooses the helpful ones (the recognition memory). A walk begins at the
entities of these facts and, with a small weight, at passages that are similar to the question. The
passages with the largest share of the walk are recalled. If no fact helps, the passages most
similar to the question are recalled.

Formulas and constants are those of the authors' code (OSU-NLP-Group/HippoRAG).
`test_hipporag_published.py` compares both. `pagerank` has the formula of networkx, which is not a
dependency of Parley.
"""

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array

from tasks.dialogue.agents.memory.contract import (
    Ask,
    Embed,
    Recalled,
    Thinking,
    Unit,
    in_order,
    list_in,
    read_object,
    text_in,
)
from tasks.dialogue.agents.memory.memory_subject import PROMPTS, memory_agent
from tasks.language.prompt import fill

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


Fact = tuple[str, str, str]
"""Fact as a triple: (subject, relation, object)."""
SYNONYM, MOST_SYNONYMS, SHORTEST = 0.8, 101, 3
"""Synonym edges: minimum similarity, maximum number per entity, minimum letters of an entity."""
DAMPING, PASSAGE_WEIGHT = 0.5, 0.05
"""Probability of continuing a walk, and weight of a passage's similarity among its start nodes."""
LINKED = 5
"""Maximum number of facts linked to a question, and of entities where a walk begins."""
_NO_LETTER = re.compile(r"[\W_]")


def plain(text: str) -> str:
    """Return a name or relation in lower case.

    Characters other than letters and digits become spaces.
    """
    return _NO_LETTER.sub(" ", text.lower()).strip()


def fact_text(fact: Fact) -> str:
    """Return the text whose vector represents a fact."""
    return str(fact)


class FactGraph:
    """Passages with their facts. A text without a vector has similarity 0 to every other text."""

    def __init__(self) -> None:
        self._facts_of: dict[str, tuple[Fact, ...]] = {}
        """Passage -> facts that the model found in it."""
        self._n_passages_of: dict[str, int] = {}
        """Entity -> number of passages that mention it."""
        self._edges: dict[tuple[int, int], float] | None = None

    def add(self, passage: str, facts: Sequence[Fact]) -> None:
        """Add a new passage with its facts."""
        self._facts_of[passage] = tuple(facts)
        for entity in dict.fromkeys(name for fact in facts for name in (fact[0], fact[2])):
            self._n_passages_of[entity] = self._n_passages_of.get(entity, 0) + 1
        self._edges = None

    @property
    def passages(self) -> tuple[str, ...]:
        """Return all passages, in order of insertion."""
        return tuple(self._facts_of)

    @property
    def entities(self) -> tuple[str, ...]:
        """Return the entities: subjects and objects of all facts."""
        return tuple(self._n_passages_of)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Return all facts without duplicates."""
        return tuple(dict.fromkeys(fact for facts in self._facts_of.values() for fact in facts))

    def linked_facts(self, vectors: "Mapping[str, Vector]", question: str) -> dict[Fact, float]:
        """Return the facts most similar to the question with scores from 0 to 1, best first."""
        facts = self.facts
        scores = _similarities(vectors, question, tuple(map(fact_text, facts)))
        return {facts[n]: float(scores[n]) for n in np.argsort(-scores, kind="stable")[:LINKED]}

    def dense_scores(self, vectors: "Mapping[str, Vector]", question: str) -> dict[str, float]:
        """Return each passage's similarity to the question, from 0 to 1."""
        return dict(
            zip(
                self.passages, _similarities(vectors, question, self.passages).tolist(), strict=True
            )
        )

    def walk_scores(
        self,
        vectors: "Mapping[str, Vector]",
        question: str,
        chosen: Sequence[Fact],
        scores: Mapping[Fact, float],
    ) -> dict[str, float]:
        """Return each passage's share of a walk that starts at the entities of the chosen facts.

        Args:
            vectors: Vectors by text.
            question: Text of the question.
            chosen: Facts that the question is about. A fact may occur twice.
            scores: Scores of at least these facts.
        """
        entities = {name: index for index, name in enumerate(self.entities)}
        seeds = [0.0] * len(entities) + [
            PASSAGE_WEIGHT * share for share in self.dense_scores(vectors, question).values()
        ]
        for name, weight in self._entity_weights(chosen, scores).items():
            seeds[entities[name]] = weight
        if not any(seeds):
            return self.dense_scores(vectors, question)
        if self._edges is None:
            self._edges = self._edge_weights(vectors, entities)
        ranks = pagerank(len(seeds), self._edges, seeds, DAMPING)
        return dict(zip(self.passages, ranks[len(entities) :], strict=True))

    def _entity_weights(
        self, chosen: Sequence[Fact], scores: Mapping[Fact, float]
    ) -> dict[str, float]:
        """Return the entities with the largest weights among the chosen facts.

        A weight is the mean score of the entity's facts, divided by the number of passages that
        mention it.
        """
        weights: dict[str, list[float]] = {}
        for fact in chosen:
            for name in (fact[0], fact[2]):
                weights.setdefault(name, []).append(scores[fact] / self._n_passages_of[name])
        means = {name: sum(values) / len(values) for name, values in weights.items()}
        return dict(sorted(means.items(), key=lambda item: -item[1])[:LINKED])

    def _edge_weights(
        self, vectors: "Mapping[str, Vector]", entities: Mapping[str, int]
    ) -> dict[tuple[int, int], float]:
        """Return the weight of each edge, summed over both directions.

        A fact weighs 1 in each direction, and an entity in a passage weighs 1. For synonyms, their
        similarity replaces the weight of facts.
        """
        one_way: dict[tuple[int, int], float] = {}
        for index, facts in enumerate(self._facts_of.values(), len(entities)):
            for fact in facts:
                first, second = entities[fact[0]], entities[fact[2]]
                for pair in ((first, second), (second, first)):
                    one_way[pair] = one_way.get(pair, 0.0) + 1.0
                one_way[index, first] = one_way[index, second] = 1.0
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
    """Return (entity, entity) -> similarity of synonyms, only the nearest ones of each entity."""
    pairs: dict[tuple[int, int], float] = {}
    if not any(name in vectors for name in entities):
        return pairs
    matrix = _matrix(vectors, entities)
    similarity = matrix @ matrix.T
    np.fill_diagonal(similarity, -1.0)
    for index, name in enumerate(entities):
        if len(_NO_LETTER.sub("", name)) >= SHORTEST:
            near = np.flatnonzero(similarity[index] >= SYNONYM)
            nearest = near[np.argsort(-similarity[index][near], kind="stable")][:MOST_SYNONYMS]
            pairs |= {(index, int(other)): float(similarity[index, other]) for other in nearest}
    return pairs


def _matrix(
    vectors: "Mapping[str, Vector]", texts: Sequence[str]
) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    zero = np.zeros_like(next(iter(vectors.values())))
    return np.stack([vectors.get(text, zero) for text in texts])


def _similarities(
    vectors: "Mapping[str, Vector]", question: str, texts: Sequence[str]
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return each text's similarity to the question, scaled to 0 (least) to 1 (most).

    All are 1 if they are equal.
    """
    if question not in vectors or not texts:
        return np.ones(len(texts))
    similarities = (_matrix(vectors, texts) @ vectors[question]).astype(float)
    width = similarities.max() - similarities.min()
    return np.ones(len(texts)) if width == 0 else (similarities - similarities.min()) / width


TOLERANCE, MOST_ROUNDS = 1e-9, 200


def pagerank(
    n: int, edges: Mapping[tuple[int, int], float], seeds: Sequence[float], damping: float
) -> tuple[float, ...]:
    """Return the stationary distribution of a random walk that restarts at the seeds.

    Args:
        n: Number of nodes, 1 or more.
        edges: (node, node) -> weight. Each edge counts in both directions.
        seeds: Restart weight of each node. Not all may be 0.
        damping: Probability of continuing along an edge, at least 0 and below 1. From a node
            without edges the walk always restarts.

    Returns:
        Share of each node. The sum is 1.
    """
    weights = np.asarray(seeds, dtype=float)
    start = weights / weights.sum()
    pairs = np.array([*edges, *((b, a) for a, b in edges)], dtype=int).reshape(-1, 2)
    values = np.array([*edges.values(), *edges.values()], dtype=float)
    graph = coo_array((values, (pairs[:, 1], pairs[:, 0])), shape=(n, n)).tocsr()
    leaving = np.asarray(graph.sum(axis=0)).ravel()
    share = np.divide(1.0, leaving, out=np.zeros(n), where=leaving > 0)
    rank = start
    for _ in range(MOST_ROUNDS):
        moved = (
            damping * (graph @ (rank * share) + rank[leaving == 0].sum() * start)
            + (1 - damping) * start
        )
        if np.abs(moved - rank).sum() < TOLERANCE:
            return tuple(moved.tolist())
        rank = moved
    return tuple(rank.tolist())


class PassageGraph:
    """Rounds as passages of a fact graph, with the vectors of all texts."""

    def __init__(self) -> None:
        self._graph = FactGraph()
        self._unit_of: dict[str, Unit] = {}
        """Passage -> round. A repeated text is one passage."""
        self._vectors: dict[str, Vector] = {}

    def add(self, unit: Unit) -> Thinking[None]:
        """Add a round of the conversation as a passage with its facts."""
        if unit.text in self._unit_of:
            return
        reply = yield Ask("facts", fill(PROMPTS["hipporag_facts"], passage=unit.shown))
        facts = facts_in(read_object(reply).get("triples"))
        names = (name for fact in facts for name in (fact[0], fact[2], fact_text(fact)))
        new = dict.fromkeys(text for text in (unit.text, *names) if text not in self._vectors)
        self._vectors |= yield Embed(tuple(new))
        self._unit_of[unit.text] = unit
        self._graph.add(unit.text, facts)

    def recall(self, question: str, most: int) -> Thinking[Recalled]:
        """Recall the passages that a random walk from the question's facts visits most."""
        question_vectors: Mapping[str, Vector] = yield Embed((question,))
        vectors = {**self._vectors, **question_vectors}
        scores = self._graph.linked_facts(vectors, question)
        chosen: Sequence[Fact] = ()
        if scores:
            facts = json.dumps([list(fact) for fact in scores], ensure_ascii=False)
            reply = yield Ask(
                "filter", fill(PROMPTS["hipporag_filter"], question=question, facts=facts)
            )
            chosen = chosen_facts(read_object(reply).get("facts"), tuple(scores))
        if chosen:
            passage_scores = self._graph.walk_scores(vectors, question, chosen, scores)
        else:
            passage_scores = self._graph.dense_scores(vectors, question)
        best = sorted(
            passage_scores,
            key=lambda passage: (-passage_scores[passage], -self._unit_of[passage].number),
        )[:most]
        return Recalled(
            in_order(
                [(self._unit_of[passage].number, self._unit_of[passage].shown) for passage in best]
            )
        )


def facts_in(answer: Any) -> tuple[Fact, ...]:
    """Return the distinct facts of an answer.

    Omit items that are no triple, or that have an empty subject or object.
    """
    facts: dict[Fact, None] = {}
    for item in list_in(answer):
        parts = [plain(text_in(part)) for part in list_in(item)]
        if len(parts) == 3 and parts[0] and parts[2]:
            facts[parts[0], parts[1], parts[2]] = None
    return tuple(facts)


def chosen_facts(answer: Any, candidates: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return the most similar candidate for each fact of an answer."""
    by_text = {str(fact): fact for fact in candidates}
    triples = [
        str([text_in(part) for part in list_in(item)])
        for item in list_in(answer)
        if len(list_in(item)) == 3
    ]
    return tuple(by_text[get_close_matches(item, by_text, n=1, cutoff=0.0)[0]] for item in triples)


AGENT = memory_agent(
    "hipporag",
    "searches a graph of facts and rounds by personalised PageRank (HippoRAG 2's method)",
    PassageGraph,
    ("hipporag_facts", "hipporag_filter"),
    calls_per_context_round=1,
)

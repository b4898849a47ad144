"""HippoRAG 2 (Gutierrez et al. 2025): a graph of facts and passages with personalised PageRank.

Each round is a passage, and the model lists its facts. A question is linked to the most similar
facts, and the model chooses the helpful ones (the recognition memory). A walk begins at the
entities of these facts and, with a small weight, at passages that are similar to the question. The
passages with the largest share of the walk are recalled. If no fact helps, the passages most
similar to the question are recalled.
"""

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tasks.dialogue.agents.contract import Agent
from tasks.dialogue.agents.memory.fact_graph import Fact, FactGraph, fact_text, plain
from tasks.dialogue.agents.memory.memory_subject import (
    PROMPTS,
    Ask,
    Embed,
    Recalled,
    Thinking,
    Unit,
    begin_with_memory,
    in_order,
    list_in,
    read_object,
    text_in,
)
from tasks.language.prompt import fill

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


NAME = "hipporag"


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


AGENT = Agent(
    name=NAME,
    version="3",
    help="searches a graph of facts and rounds by personalised PageRank (HippoRAG 2's method)",
    begin=begin_with_memory(PassageGraph, NAME),
    prompts={name: PROMPTS[name] for name in ("recalled", "hipporag_facts", "hipporag_filter")},
    calls_per_turn=3,
    calls_per_context_round=1,
    needs_embedder=True,
)

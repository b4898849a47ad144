"""HippoRAG 2 beside its authors' own code: linking, seeds, edges and ranks of random graphs.

`PARLEY_HIPPORAG` names a clone of OSU-NLP-Group/HippoRAG (public); nothing of it is kept here. Its
methods run on a graph that solves the walk's equation directly, in the place of igraph, on stores
that hold the test's own vectors, and with sets that keep their order.
"""

import ast
import difflib
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.dialogue.agents.memory.hipporag import (
    LINKED,
    SYNONYM,
    Fact,
    FactGraph,
    chosen_facts,
    fact_text,
    plain,
)
from tests.fixtures.clone import HIPPORAG

pytestmark = [pytest.mark.slow, HIPPORAG.needed]
N_CASES = 300
QUESTION = "who is it"
DIM = 5
METHODS = (
    *(
        "add_fact_edges",
        "add_passage_edges",
        "add_synonymy_edges",
        "add_new_edges",
        "get_fact_scores",
        "rerank_facts",
    ),
    *("dense_passage_retrieval", "get_top_k_weights", "graph_search_with_fact_entities", "run_ppr"),
)
HELPERS = (
    "text_processing",
    "extract_entity_nodes",
    "flatten_facts",
    "min_max_normalize",
    "compute_mdhash_id",
)
Vectors = Mapping[str, Any]


class Walk:
    """A graph as igraph has it, with ranks from the linear equation of the walk."""

    def __init__(self, names: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self.weights = np.zeros((len(names), len(names)))
        self.vs = _Nodes(names)

    def add_edges(
        self, edges: Sequence[tuple[str, str]], attributes: Mapping[str, Sequence[float]]
    ) -> None:
        for (first, second), weight in zip(edges, attributes["weight"], strict=True):
            a, b = self._places[first], self._places[second]
            self.weights[a, b] += weight
            self.weights[b, a] += weight

    def personalized_pagerank(self, *, damping: float, reset: Any, **_: Any) -> list[float]:
        start = np.asarray(reset) / np.sum(reset)
        leaving = self.weights.sum(axis=0)
        moves = np.where(
            leaving > 0, self.weights / np.where(leaving > 0, leaving, 1), start[:, None]
        )
        return np.linalg.solve(np.eye(len(start)) - damping * moves, (1 - damping) * start).tolist()


class _Nodes:
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __getitem__(self, attribute: str) -> Sequence[str]:
        return self._names if attribute == "name" else ()

    def attribute_names(self) -> tuple[str, ...]:
        return ()  # as before the first passage: all of them are new


class Store:
    """Texts of one kind by their ids."""

    def __init__(
        self, prefix: str, texts: Sequence[str], vectors: Vectors, name_of: Callable[..., str]
    ) -> None:
        self.rows = {name_of(text, prefix): {"content": text} for text in texts}
        self._vectors = vectors

    def get_all_id_to_rows(self) -> dict[str, Any]:
        return dict(self.rows)

    def get_embeddings(self, names: Sequence[str]) -> Any:
        return np.array([self._vectors[self.rows[name]["content"]] for name in names])

    def get_row(self, name: str) -> dict[str, str]:
        return self.rows[name]

    def get_rows(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: self.rows[name] for name in names}


class InOrder(dict[Any, None]):
    """A set in order of insertion.

    Where entities weigh the same, their code goes on with those that come first in a set of
    strings, which differ from process to process.
    """

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(dict.fromkeys(items))

    def add(self, item: Any) -> None:
        self[item] = None

    def union(self, other: Iterable[Any]) -> "InOrder":
        return InOrder((*self, *other))


def nearest(
    query_ids: Sequence[str],
    key_ids: Sequence[str],
    query_vecs: Any,
    key_vecs: Any,
    k: int,
    **_: Any,
) -> dict[str, Any]:
    alike = query_vecs @ key_vecs.T
    order = [np.argsort(-row, kind="stable")[:k] for row in alike]
    return {
        name: ([key_ids[n] for n in own], alike[row][own].tolist())
        for row, (name, own) in enumerate(zip(query_ids, order, strict=True))
    }


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Their functions, and a class with their methods."""
    source = (
        HIPPORAG.extract(tmp_path_factory.mktemp("hipporag"), "src/hipporag") / "src" / "hipporag"
    )
    quiet = SimpleNamespace(info=print, warning=print, error=print)
    known: dict[str, Any] = {
        "np": np,
        "re": re,
        "json": json,
        "ast": ast,
        "difflib": difflib,
        "logger": quiet,
        "time": _Clock,
    }
    known |= {
        "defaultdict": defaultdict,
        "tqdm": lambda items, **_: items,
        "retrieve_knn": nearest,
        "print": lambda *_: None,
    }
    known |= {
        "get_query_instruction": str,
        "eval": ast.literal_eval,
        **dict.fromkeys(("Dict", "List", "Tuple"), _Any()),
    }
    known |= dict.fromkeys(("Triple", "QuerySolution"), object)
    run_parts(
        source / "utils" / "misc_utils.py",
        HELPERS,
        known | {"md5": __import__("hashlib").md5},
        known,
    )
    known["set"] = InOrder
    run_parts(source / "HippoRAG.py", METHODS, known, known)
    run_parts(source / "rerank.py", ("rerank",), known, known)
    return SimpleNamespace(
        **{name: known[name] for name in (*HELPERS, "rerank")},
        methods={name: known[name] for name in METHODS},
    )


class _Any:
    def __getitem__(self, _: Any) -> type:
        return object


class _Clock:
    @staticmethod
    def time() -> float:
        return 0.0


def run_parts(
    path: Path, names: Sequence[str], scope: dict[str, Any], into: dict[str, Any]
) -> None:
    """Define a file's functions and methods of these names, without the rest of it."""
    parts = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    wanted = [node for node in parts if node.name in names]
    assert {node.name for node in wanted} == set(names)
    for node in wanted:
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
    exec(compile(ast.Module(list[ast.stmt](wanted), []), str(path), "exec"), scope)
    into |= {name: scope[name] for name in names}


class Case:
    """Random passages with facts, vectors of all texts, and a question."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._draw = np.random.default_rng(seed)
        names = [f"Name-{n}" if n % 3 else f"N{n}" for n in range(self.random.randint(3, 12))]
        self.triples: dict[str, list[list[str]]] = {}
        for number in range(self.random.randint(2, 12)):
            drawn = [
                [
                    self.random.choice(names),
                    f"rel {self.random.randint(0, 2)}",
                    self.random.choice(names),
                ]
                for _ in range(4)
            ]
            self.triples[f"passage {number}"] = list(
                map(list, dict.fromkeys(map(tuple, drawn[: self.random.randint(1, 4)])))
            )
        self.facts_of: dict[str, tuple[Fact, ...]] = {
            passage: tuple((plain(a), plain(b), plain(c)) for a, b, c in triples)
            for passage, triples in self.triples.items()
        }
        facts = dict.fromkeys(fact for found in self.facts_of.values() for fact in found)
        entities = dict.fromkeys(name for fact in facts for name in (fact[0], fact[2]))
        self.vectors = {
            text: self._vector() for text in (QUESTION, *self.triples, *map(fact_text, facts))
        }
        common = self._vector()
        for name in entities:  # some of them are synonyms
            near = common + 0.3 * self._vector()
            self.vectors[name] = (
                near / np.linalg.norm(near) if self.random.random() < 0.4 else self._vector()
            )

    def _vector(self) -> Any:
        vector = self._draw.normal(size=DIM)
        return vector / np.linalg.norm(vector)

    def graph(self) -> FactGraph:
        made = FactGraph()
        for passage, facts in self.facts_of.items():
            made.add(passage, facts)
        return made


def indexed(authors: SimpleNamespace, case: Case) -> Any:
    """Their index of the case's passages."""
    name_of = authors.compute_mdhash_id
    chunk_triples = [authors.text_processing(triples) for triples in case.triples.values()]
    entities, chunk_entities = authors.extract_entity_nodes(chunk_triples)
    facts = [str(fact) for fact in authors.flatten_facts(chunk_triples)]
    config = SimpleNamespace(
        **{
            "linking_top_k": LINKED,
            "damping": 0.5,
            "passage_node_weight": 0.05,
            "synonymy_edge_topk": 2047,
        },
        **{
            "synonymy_edge_query_batch_size": 1000,
            "synonymy_edge_key_batch_size": 10000,
            "synonymy_edge_sim_threshold": SYNONYM,
        },
    )
    stores = {
        "entity_embedding_store": Store("entity-", list(map(str, entities)), case.vectors, name_of),
        "chunk_embedding_store": Store("chunk-", list(case.triples), case.vectors, name_of),
        "fact_embedding_store": Store("fact-", facts, case.vectors, name_of),
    }
    nodes = [*stores["entity_embedding_store"].rows, *stores["chunk_embedding_store"].rows]
    made: Any = type("Indexed", (), authors.methods)()
    made.__dict__.update(stores, global_config=config, graph=Walk(nodes), ppr_time=0.0)
    made.node_to_node_stats, made.ent_node_to_chunk_ids = {}, {}
    chunks = list(stores["chunk_embedding_store"].rows)
    made.add_fact_edges(chunks, chunk_triples)
    assert made.add_passage_edges(chunks, chunk_entities) == len(chunks)
    made.add_synonymy_edges()
    made.add_new_edges()
    made.node_name_to_vertex_idx = {name: place for place, name in enumerate(nodes)}
    made.passage_node_keys, made.fact_node_keys = chunks, list(stores["fact_embedding_store"].rows)
    made.passage_node_idxs = [made.node_name_to_vertex_idx[name] for name in chunks]
    made.passage_embeddings = stores["chunk_embedding_store"].get_embeddings(chunks)
    made.fact_embeddings = stores["fact_embedding_store"].get_embeddings(made.fact_node_keys)
    made.query_to_embedding = {
        kind: {QUESTION: case.vectors[QUESTION]} for kind in ("triple", "passage")
    }
    return made


def by_passage(case: Case, found: tuple[Any, Any]) -> dict[str, float]:
    passages = list(case.triples)
    return {passages[place]: float(score) for place, score in zip(*found, strict=True)}


def compare(authors: SimpleNamespace, seed: int) -> bool:
    """Compare one case; returns whether the authors' code ranks it: it stops where an entity has no
    weight.
    """
    case = Case(seed)
    theirs, ours = indexed(authors, case), case.graph()
    shown: list[Fact] = []
    said: list[list[str]] = []

    def choose(
        question: str, facts: Sequence[Fact], places: Sequence[int], len_after_rerank: int
    ) -> tuple[Any, Any, Any]:
        """Their filter, with a model that copies some of the facts, and not to the letter."""
        shown.extend(facts)
        said.extend([f"{one}s" for one in fact] for fact in facts if case.random.random() < 0.6)
        filtering = SimpleNamespace(llm_call=lambda *_: "", parse_filter=lambda _: said)
        return authors.rerank(filtering, question, list(facts), list(places), len_after_rerank)

    theirs.rerank_filter = choose
    scores = theirs.get_fact_scores(QUESTION)
    places, facts, _ = theirs.rerank_facts(QUESTION, scores)
    linked = ours.linked_facts(case.vectors, QUESTION)
    assert list(linked) == shown
    chosen = chosen_facts(said, tuple(linked))
    assert list(chosen) == facts
    assert [linked[fact] for fact in chosen] == pytest.approx([scores[place] for place in places])
    dense = by_passage(case, theirs.dense_passage_retrieval(QUESTION))
    assert ours.dense_scores(case.vectors, QUESTION) == pytest.approx(dense)
    if not chosen:
        return False
    try:
        ranked = theirs.graph_search_with_fact_entities(
            QUESTION, LINKED, scores, facts, places, 0.05
        )
    except AssertionError:
        assert min(scores[place] for place in places) == 0
        return False
    assert ours.walk_scores(case.vectors, QUESTION, chosen, linked) == pytest.approx(
        by_passage(case, ranked), abs=1e-7
    )
    return True


def test_questions_are_linked_and_ranked_as_the_authors_do(authors: SimpleNamespace) -> None:
    n_ranked = sum(compare(authors, seed) for seed in range(N_CASES))
    assert n_ranked > N_CASES / 2


def test_some_cases_have_synonyms(authors: SimpleNamespace) -> None:
    joined = [
        0 < weight < 1
        for seed in range(9)
        for weight in indexed(authors, Case(seed)).node_to_node_stats.values()
    ]
    assert sum(joined) > 20

"""Each text is asked for once, whoever wants it and whatever is killed meanwhile."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.content_id import text_digest
from schemas.errors import ModelUnavailable
from schemas.run import EmbedderIdentity, Embedding
from tasks.language.embedding import TEXTS_A_REQUEST
from tasks.storage.home import Home
from tasks.storage.migration import migrate_lake
from tasks.storage.paid_calls import Calls
from tasks.storage.parquet_store import Lake
from tasks.storage.vectors import TEXTS_A_PART, Vectors, vector_form
from tests.fixtures.embedding_server import vector_of
from tests.own_files import ROOT
from warehouse.publication.publish import publish


class Counting:
    """An embedder that counts, and fails at the n-th question."""

    def __init__(self, name: str = "counted", dim: int = 4, fails_at: int | None = None) -> None:
        self.identity = EmbedderIdentity(provider="openai", name=name)
        self.asked: list[str] = []
        self._dim, self._fails_at, self._n = dim, fails_at, 0

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        self._n += 1
        fails = self._n == self._fails_at
        await asyncio.sleep(0 if fails else 0.01)
        if fails:
            raise ModelUnavailable("gone")
        self.asked += texts
        return [
            None
            if text.startswith("too long")
            else np.array(vector_of(text, self._dim), np.float32)
            for text in texts
        ]

    async def aclose(self) -> None:
        """Nothing is open."""


def find(lake: Lake, embedder: Counting, *questions: Sequence[str]) -> list[dict[str, Any]]:
    """What one process finds, asked these questions at once; closed at its end."""

    async def ask() -> list[dict[str, Any]]:
        vectors = Vectors(lake, embedder)
        try:
            return [dict(found) for found in await asyncio.gather(*map(vectors.find, questions))]
        finally:
            await vectors.aclose()

    return asyncio.run(ask())


def texts(numbers: Iterable[int]) -> list[str]:
    return [f"text {n}" for n in numbers]


def test_what_one_process_asked_for_another_reads(tmp_path: Path) -> None:
    lake, first, second = Lake(tmp_path), Counting(), Counting()
    find(lake, first, texts(range(10)))
    (found,) = find(lake, second, texts(range(12)))
    assert (len(first.asked), second.asked) == (10, ["text 10", "text 11"])
    assert {text: vector.tolist() for text, vector in found.items()} == {
        t: list(vector_of(t, 4)) for t in texts(range(12))
    }
    rows = lake.read("embeddings", Embedding, embedder=first.identity.digest)
    assert {row.text_digest: row.vector for row in rows} == {
        text_digest(t): vector_of(t, 4) for t in texts(range(12))
    }


def test_equal_texts_of_questions_at_once_are_asked_for_once(tmp_path: Path) -> None:
    embedder = Counting()
    found = find(Lake(tmp_path), embedder, ["a", "b", "a"], ["b", "c"], ["a"])
    assert sorted(embedder.asked) == ["a", "b", "c"]
    assert [sorted(one) for one in found] == [["a", "b"], ["b", "c"], ["a"]]


def test_blank_and_too_long_texts_have_no_vector(tmp_path: Path) -> None:
    embedder = Counting()
    assert list(find(Lake(tmp_path), embedder, ["", " \n", "too long", "fine"])[0]) == ["fine"]
    assert embedder.asked == ["too long", "fine"]


def test_a_text_that_the_embedder_takes_not_is_sent_to_it_once(tmp_path: Path) -> None:
    embedder = Counting()

    async def ask() -> list[set[str]]:
        vectors = Vectors(Lake(tmp_path), embedder)
        try:
            return [
                set(await vectors.find(["too long for it", *texts(range(number))]))
                for number in (1, 2, 3)
            ]
        finally:
            await vectors.aclose()

    assert asyncio.run(ask()) == [set(texts(range(number))) for number in (1, 2, 3)]
    assert sorted(embedder.asked) == sorted(["too long for it", *texts(range(3))])


def test_embedders_have_a_folder_each(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for name in ("one", "two"):
        embedder = Counting(name)
        find(lake, embedder, ["a"])
        assert embedder.asked == ["a"]
    assert len({part.parent for part in lake.parts("embeddings")}) == 2


def test_a_fault_costs_the_requests_under_way(tmp_path: Path) -> None:
    lake, broken, whole = Lake(tmp_path), Counting(fails_at=3), Counting()
    everything = texts(range(3 * TEXTS_A_PART + 5))
    with pytest.raises(ModelUnavailable):
        find(lake, broken, everything)
    assert len(find(lake, whole, everything)[0]) == len(everything)
    assert not set(broken.asked) & set(whole.asked)
    assert len(broken.asked) == 7 * TEXTS_A_REQUEST
    assert len(broken.asked) + len(whole.asked) == len(everything)


@pytest.mark.slow
def test_what_a_killed_process_was_answered_is_found_without_any_part(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert lake.parts("embeddings") == []
    again = Counting()
    (found,) = find(lake, again, texts(range(40)))
    assert (len(found), again.asked) == (40, texts(range(35, 40)))
    assert found["text 34"].tolist() == list(vector_of("text 34", 4))


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tasks.storage.parquet_store import Lake
from tasks.storage.vectors import Vectors
from tests.tasks.storage.test_vectors import Counting, texts

async def ask():
    vectors = Vectors(Lake(Path(sys.argv[1])), Counting())
    await vectors.find(texts(range(35)))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(ask())
"""


def test_two_living_processes_find_each_others_answers_and_leave_no_segment(tmp_path: Path) -> None:
    first, second = Counting(), Counting()

    async def ask() -> None:
        one, other = Vectors(Lake(tmp_path), first), Vectors(Lake(tmp_path), second)
        await one.find(texts(range(20)))
        await other.find(texts(range(30)))
        await one.find(texts(range(30)))
        await one.aclose()
        assert len(await other.find(texts(range(30)))) == 30
        await other.aclose()

    asyncio.run(ask())
    assert (first.asked, second.asked) == (texts(range(20)), texts(range(20, 30)))
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [
        ".parquet",
        ".parquet",
    ]


def test_a_torn_line_costs_its_answer_alone_and_an_old_segment_becomes_a_part(
    tmp_path: Path,
) -> None:
    lake, first, second = Lake(tmp_path), Counting(), Counting()
    folder = lake.folder("embeddings", embedder=first.identity.digest)
    left = Calls(folder, vector_form())
    left.put(
        {text_digest(text): np.array(vector_of(text, 4), np.float32) for text in texts(range(3))}
    )
    (segment,) = folder.glob("*.jsonl")
    left.close()
    with segment.open("ab") as file:
        file.write(b'{"digests": ["x"], "vec')
    os.utime(segment, (1, 1))
    (found,) = find(lake, second, texts(range(4)))
    assert (len(found), second.asked) == (4, ["text 3"])
    assert not segment.exists()
    assert len(lake.read("embeddings", Embedding, embedder=first.identity.digest)) == 4


def test_a_segment_of_the_release_before_is_found_and_becomes_a_part(tmp_path: Path) -> None:
    lake, embedder = Lake(tmp_path), Counting()
    folder = lake.folder("embeddings", embedder=embedder.identity.digest)
    folder.mkdir(parents=True)
    joined = b"".join(
        np.array(vector_of(text, 4), np.float32).tobytes() for text in texts(range(3))
    )
    row = {
        "digests": [text_digest(text) for text in texts(range(3))],
        "vectors": base64.b64encode(joined).decode(),
    }
    (folder / "1-0-000000.jsonl").write_text(json.dumps(row) + "\n")
    os.utime(folder / "1-0-000000.jsonl", (1, 1))
    (found,) = find(lake, embedder, texts(range(4)))
    assert {text: vector.tolist() for text, vector in found.items()} == {
        t: list(vector_of(t, 4)) for t in texts(range(4))
    }
    assert embedder.asked == ["text 3"]
    assert not list(folder.glob("*.jsonl"))


def line(*names: str) -> dict[str, np.ndarray[Any, Any]]:
    return {text_digest(text): np.array(vector_of(text, 4), np.float32) for text in names}


def test_a_segment_that_was_read_and_discarded_is_not_mistaken_for_the_next(tmp_path: Path) -> None:
    writer, reader = Calls(tmp_path, vector_form()), Calls(tmp_path, vector_form())
    writer.put(line(*texts(range(40))))
    reader.refresh()
    assert len(reader.others) == 40
    writer.discard()
    writer.put(line("a", "b"))
    writer.put(line(*texts(range(40, 80))))
    reader.refresh()
    assert set(reader.others) == set(line("a", "b", *texts(range(40, 80))))


def test_an_old_segment_is_taken_whole_and_never_from_a_living_writer(tmp_path: Path) -> None:
    writer, reader = Calls(tmp_path, vector_form()), Calls(tmp_path, vector_form())
    writer.put(line("a"))
    reader.refresh()
    writer.put(line("b"))
    (segment,) = tmp_path.glob("*.jsonl")
    os.utime(segment, (1, 1))
    assert list(reader.take_abandoned()) == []
    assert segment.exists(), "its writer may go on"
    writer.close()
    os.utime(segment, (1, 1))
    assert [set(rows) for rows in reader.take_abandoned()] == [set(line("a", "b"))]
    assert not segment.exists()


def test_what_is_written_while_an_old_segment_is_taken_stays(tmp_path: Path) -> None:
    writer, reader = Calls(tmp_path, vector_form()), Calls(tmp_path, vector_form())
    writer.put(line("a"))
    writer.close()
    (segment,) = tmp_path.glob("*.jsonl")
    os.utime(segment, (1, 1))
    for rows in reader.take_abandoned():
        assert set(rows) == set(line("a"))
        with segment.open("ab") as file:
            file.write(b'{"digests": [], "vectors": ""}\n')
    assert segment.exists()


def test_a_fault_reaches_all_that_wait_for_the_text(tmp_path: Path) -> None:
    async def ask() -> list[Any]:
        vectors = Vectors(Lake(tmp_path), Counting(fails_at=1))
        return list(
            await asyncio.gather(
                vectors.find(["a"]), vectors.find(["a", "b"]), return_exceptions=True
            )
        )

    assert [type(one) for one in asyncio.run(ask())] == [ModelUnavailable, ModelUnavailable]


def test_vectors_of_another_length_are_another_models(tmp_path: Path) -> None:
    find(Lake(tmp_path), Counting(dim=4), ["a"])
    with pytest.raises(ModelUnavailable, match="has 5 numbers, its stored vectors have 4"):
        find(Lake(tmp_path), Counting(dim=5), ["b"])


def test_the_warehouse_leaves_them_in_the_lake(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    find(Lake(home.lake), Counting(), ["a"])
    assert migrate_lake(home).n_upgraded == 0
    publish(home.path)
    assert len(Lake(home.lake).parts("embeddings")) == 1

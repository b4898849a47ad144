"""Finds vectors while dialogues are still played, so that the stage `embed` finds them kept."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Self

from schemas.episode import Episode
from tasks.benchmarks.scores import Played, ScoreRequest
from tasks.language.embedding import EmbedderAccess, open_embedder
from tasks.planning.plan import RunPlan
from tasks.storage.contexts import context_of
from tasks.storage.vectors import Vectors
from tasks.worker.jobs import ConverseResult
from tasks.worker.purse import MeteredEmbedder, Purse

_LEAVES_S = 10.0
"""Seconds that stopped dialogues wait for the texts under way, which are paid."""


class EmbedAhead:
    """Embeds what dialogues say as they end, in a thread of the driver's process.

    To be used as a block around the dialogues. At its end the texts that were begun have their vectors; where the dialogues were
    stopped, the others are given up. A fault is no matter here: the stage `embed` asks again, and says what happens then.
    """

    def __init__(self, plan: RunPlan, find_access: Callable[[], EmbedderAccess], purse: Purse | None) -> None:
        self._plan, self._find_access, self._purse = plan, find_access, purse
        self._members = {member.episode_id: member for member in plan.members}
        self._taken = set[str]()
        self._is_ready = Event()
        self._thread = Thread(target=self._run, name="embed ahead", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._tell(self._texts.put_nowait, None)
        else:
            self._tell(self._task.cancel)
        self._thread.join(None if error is None else _LEAVES_S)

    def take(self, result: ConverseResult) -> None:
        """A shard of dialogues was played."""
        if not result.finished:
            return
        plan = self._plan
        part = plan.lake.folder("episodes", **plan.keys) / f"part-{result.part}.parquet"
        played = [
            one for one in plan.lake.read_part("episodes", Episode, part) if one.is_final and one.episode_id in self._members
        ]
        wanted = plan.benchmark.scores.texts_to_embed
        texts = dict.fromkeys(text for one in played if wanted for text in wanted(self._request(one)) if text not in self._taken)
        if texts:
            self._taken.update(texts)
            self._tell(self._texts.put_nowait, tuple(texts))

    def _tell(self, what: Callable[..., object], *given: object) -> None:
        with suppress(RuntimeError):  # a fault has ended it
            self._loop.call_soon_threadsafe(what, *given)

    def _request(self, episode: Episode) -> ScoreRequest:
        plan, dialog = self._plan, self._members[episode.episode_id].dialog
        played = Played(dialog, episode, (), (), context_of(plan.lake, dialog))
        problem = plan.problems[dialog.problem_id]
        return ScoreRequest(problem, episode.sample, plan.run_id, plan.spec.setting, plan.options, (played,))

    def _run(self) -> None:
        with suppress(Exception, asyncio.CancelledError):
            asyncio.run(self._embed())

    async def _embed(self) -> None:
        """Embed what is taken, until nothing more comes."""
        task, identity = asyncio.current_task(), self._plan.spec.embedder
        assert task is not None
        assert identity is not None
        self._loop, self._task = asyncio.get_running_loop(), task
        self._texts: asyncio.Queue[tuple[str, ...] | None] = asyncio.Queue()
        self._is_ready.set()
        embedder = open_embedder(identity, self._find_access)
        vectors = Vectors(self._plan.lake, MeteredEmbedder(embedder, self._purse) if self._purse else embedder)
        try:
            while (texts := await self._texts.get()) is not None:
                await vectors.find(texts)
        finally:
            await vectors.aclose()

"""Finds vectors while dialogues are still played, so that the stage `embed` finds them kept."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Event, Thread
from types import TracebackType
from typing import Self

from schemas.episode import Episode
from schemas.errors import ParleyError
from tasks.benchmarks.scores import Played, ScoreRequest
from tasks.language.embedding import EmbedderAccess, open_embedder
from tasks.planning.plan import RunPlan
from tasks.storage.contexts import context_of
from tasks.storage.sends import SendLog
from tasks.storage.vectors import Vectors
from tasks.worker.jobs import ConverseResult
from tasks.worker.purse import MeteredEmbedder, Purse

_LEAVES_S = 10.0
"""Seconds that stopped dialogues wait for its end."""


class EmbedAhead:
    """Embeds what dialogues say as they end, in a thread of the driver's process.

    To be used as a block around the dialogues. At its end the texts that were begun have their vectors; where the dialogues were
    stopped, they are given up, those under way, too. A fault is no matter here: the stage `embed` asks again, and says what
    happens then.
    """

    def __init__(
        self, plan: RunPlan, find_access: Callable[[], EmbedderAccess], purse: Purse | None
    ) -> None:
        self._plan, self._find_access, self._purse = plan, find_access, purse
        self._members = {member.episode_id: member for member in plan.members}
        self._taken = set[str]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = Event()
        self._thread = Thread(
            target=copy_context().run, args=(self._run,), name="embed ahead", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tell(lambda: self._texts.put_nowait(None) if error is None else self._task.cancel())
        self._thread.join(None if error is None else _LEAVES_S)

    def take(self, result: ConverseResult) -> None:
        """A shard of dialogues was played."""
        if not result.finished:
            return
        plan = self._plan
        part = plan.lake.folder("episodes", **plan.keys) / f"part-{result.part}.parquet"
        played = [
            one
            for one in plan.lake.read_part("episodes", Episode, part)
            if one.is_final and one.episode_id in self._members
        ]
        wanted = plan.benchmark.scores.texts_to_embed
        texts = dict.fromkeys(
            text
            for one in played
            if wanted
            for text in wanted(self._request(one))
            if text not in self._taken
        )
        if texts:
            self._taken.update(texts)
            self._tell(lambda: self._texts.put_nowait(tuple(texts)))

    def _tell(self, what: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # a fault has ended it
            if self._loop:
                self._loop.call_soon_threadsafe(what)

    def _request(self, episode: Episode) -> ScoreRequest:
        plan, dialog = self._plan, self._plan.dialog(self._members[episode.episode_id])
        played = Played(dialog, episode, (), (), context_of(plan.lake, dialog))
        problem = plan.problems[dialog.problem_id]
        return ScoreRequest(
            problem, episode.sample, plan.run_id, plan.spec.setting, plan.options, (played,)
        )

    def _run(self) -> None:
        with suppress(ParleyError, OSError, asyncio.CancelledError):
            try:
                asyncio.run(self._embed())
            finally:
                self._is_ready.set()  # also where it could not begin

    async def _embed(self) -> None:
        """Embed what is taken, until nothing more comes."""
        task, identity = asyncio.current_task(), self._plan.spec.embedder
        assert task is not None
        assert identity is not None
        self._task = task
        self._texts: asyncio.Queue[tuple[str, ...] | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._is_ready.set()
        sends = SendLog(self._plan.home.sends(self._plan.run_id))
        embedder = open_embedder(identity, self._find_access, on_send=sends.count_embedder)
        vectors = Vectors(
            self._plan.lake, MeteredEmbedder(embedder, self._purse) if self._purse else embedder
        )
        try:
            while (texts := await self._texts.get()) is not None:
                await vectors.find(texts)
        finally:
            await vectors.aclose()
            sends.close()

"""What a build was told, kept at once: answers by request, verdicts by program. Nothing kept is asked for again.

Each process writes a segment of its own below the build's folder. Equal requests under way are sent once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from sandbox.host.slots import slot_count
from sandbox.judging.function_tests import RUNNER_VERSION, run_program
from schemas.content_id import content_id
from schemas.errors import UsageError
from schemas.problem import SuiteKind
from schemas.run import ModelIdentity, Provider
from schemas.verdict import Outcome, ProgramVerdict, verdict_id
from tasks.dialogue.programs import Place
from tasks.language.chat_model import ChatModel, ChatRequest, Completion
from tasks.planning.builds.build_plan import BuildPlan
from tasks.storage.journaling.journal import dump_row, read_completion
from tasks.storage.journaling.segments import SegmentWriter, read_segments
from tasks.worker.paid_answers import answer_key

T = TypeVar("T")
_FREE = (Provider.RECORDED, Provider.CONTROL)
"""Their answers cost nothing, and hang on the fields that no endpoint sees."""
_DRAIN_S = 20.0
"""Time for requests under way to be answered after a fault elsewhere: they are paid for."""


class Kept(Generic[T]):
    """Things of one kind, by key. All but `known` is for one event loop.

    Args:
        known: what earlier invocations were told.
        write: keeps a thing of a role.
        lasts: whether a thing is worth keeping.
    """

    def __init__(
        self, known: dict[str, T], write: Callable[[str, str, T], None], lasts: Callable[[T], bool] = lambda _: True
    ) -> None:
        self.known, self._write, self._lasts = known, write, lasts
        self.asked: dict[str, set[str]] = {}
        """Role -> keys of what was asked for now."""
        self.reused: dict[str, set[str]] = {}
        """Role -> keys of what was known before and wanted again."""
        self._under_way: dict[str, asyncio.Task[T]] = {}
        self.is_over = False
        """No more is begun: who asks now waits to be cancelled."""

    async def find(self, role: str, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        """What is kept under the key, or what asking brings. Raises what asking raises."""
        if self.is_over:
            await asyncio.Event().wait()
        if key in self.known:
            if not any(key in keys for keys in self.asked.values()):
                self.reused.setdefault(role, set()).add(key)
            return self.known[key]
        if key not in self._under_way:
            self._under_way[key] = asyncio.create_task(self._ask(role, key, ask))
            self._under_way[key].add_done_callback(_look_at)
        return await asyncio.shield(self._under_way[key])

    async def _ask(self, role: str, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            thing = await ask()
            if self._lasts(thing):
                self._write(role, key, thing)
                self.known[key] = thing
            self.asked.setdefault(role, set()).add(key)
            return thing
        finally:
            self._under_way.pop(key, None)

    async def drain(self) -> None:
        """Begin no more, and wait a while for what is under way."""
        self.is_over = True
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=_DRAIN_S)


def _look_at(task: "asyncio.Task[Any]") -> None:
    """A fault was told to whoever waited; a task that nobody waits for any more must not complain."""
    if not task.cancelled():
        task.exception()


@dataclass(frozen=True)
class Counts:
    """How much was asked for, and how much was known."""

    asked: int = 0
    reused: int = 0


class KeptCalls:
    """All that one build was told.

    Args:
        count: is called with the amounts of a progress report.
    """

    def __init__(self, folder: Path, count: Callable[..., None] = lambda **_: None) -> None:
        self._segment, self._count = SegmentWriter(folder, "an answer", plain=dump_row), count
        answers: dict[str, Completion] = {}
        verdicts: dict[str, ProgramVerdict] = {}
        self._shown: set[tuple[str, str]] = set()
        self.n_kept: dict[str, int] = {}
        """Role -> answers that earlier invocations brought."""
        for row in read_segments(folder):
            with suppress(KeyError, TypeError, ValueError):  # no row of this Parley's
                if "verdict" in row:
                    verdicts[row["key"]] = ProgramVerdict.model_validate(row["verdict"])
                else:
                    answers[row["key"]] = read_completion(row["answer"])
                    self.n_kept[row["role"]] = self.n_kept.get(row["role"], 0) + 1
        self.answers = Kept(answers, self._keep_answer)
        self.verdicts = Kept(verdicts, self._keep_verdict, lambda found: found.outcome in (Outcome.PASSED, Outcome.FAILED))

    def _keep_answer(self, role: str, key: str, answer: Completion) -> None:
        self._segment.write({"key": key, "role": role, "answer": asdict(answer)})

    def _keep_verdict(self, role: str, key: str, verdict: ProgramVerdict) -> None:
        self._segment.write({"key": key, "role": role, "verdict": dump_row(verdict)})

    def show(self, *, calls: int = 0, output_tokens: int = 0, programs: int = 0) -> None:
        """Something was done: let progress show it."""
        self._count(episodes=calls, output_tokens=output_tokens, programs=programs)

    def show_once(self, role: str, key: str, answer: Completion) -> None:
        """A role has this answer; it counts once."""
        if (role, key) not in self._shown:
            self._shown.add((role, key))
            self.show(calls=1, output_tokens=answer.output_tokens or 0)

    async def drain(self) -> None:
        """See `Kept.drain`."""
        await asyncio.gather(self.answers.drain(), self.verdicts.drain())

    def close(self) -> None:
        """Close the segment."""
        self._segment.close()

    def calls(self, roles: Collection[str]) -> Mapping[str, Counts]:
        """Role -> answers that were asked for in this invocation, and those that were kept."""
        return {role: _counts(self.answers, role) for role in roles}

    @property
    def programs(self) -> Counts:
        """Programs that were run in this invocation, and verdicts that were kept."""
        return _counts(self.verdicts, PROGRAMS)


PROGRAMS = "programs"
"""Stands in place of a role."""


def _counts(kept: Kept[Any], role: str) -> Counts:
    return Counts(len(kept.asked.get(role, ())), len(kept.reused.get(role, ())))


@dataclass
class KeptModel:
    """A role's model, which is asked for no answer that is kept. `open_model` is called at the first request that is not."""

    identity: ModelIdentity
    role: str
    kept: KeptCalls
    open_model: Callable[[], ChatModel]

    @cached_property
    def _model(self) -> ChatModel:
        return self.open_model()

    async def complete(self, request: ChatRequest) -> Completion:
        """See `ChatModel.complete`."""
        if self.identity.provider in _FREE:
            answer = await self._model.complete(request)
            self.kept.show(calls=1)
            return answer
        key = request_key(self.identity, request)
        answer = await self.kept.answers.find(self.role, key, lambda: self._model.complete(request))
        self.kept.show_once(self.role, key, answer)
        return answer

    async def aclose(self) -> None:
        """Close the model, if it was opened."""
        if "_model" in vars(self):
            await self._model.aclose()


def request_key(identity: ModelIdentity, request: ChatRequest) -> str:
    """Names a request within its build: who is asked, and all that it is sent. Turn and call index are not sent."""
    sent = answer_key(identity.label, replace(request, turn=0, call_index=0))
    return content_id([identity, request.sampling, sent])


class KeptPrograms:
    """The `ProgramRunner` of a build: programs run on threads, as many at once as the host has slots."""

    def __init__(self, plan: BuildPlan, kept: KeptCalls) -> None:
        self._plan, self._kept = plan, kept
        self._environment = plan.sandbox.fingerprint() if plan.construction.runs_programs else ""
        self._threads = ThreadPoolExecutor(slot_count(), thread_name_prefix="parley-program")

    async def run(self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None) -> ProgramVerdict:
        """See `ProgramRunner.run`.

        Raises:
            UsageError: the construction does not say that it runs programs, or names a tree of files, which a build has not.
        """
        plan = self._plan
        if place is not None:
            raise UsageError(f"{plan.request.what} has a program run in a tree of files: builds have none")
        if not plan.construction.runs_programs:
            raise UsageError(f"{plan.request.what} has a program run: its construction must say runs_programs=True")
        key = verdict_id(
            code=code, tests=tests, runner_version=RUNNER_VERSION, environment=self._environment, limits=plan.limits, kind=kind
        )
        return await self._kept.verdicts.find(PROGRAMS, key, lambda: self._run(key, kind, code, tests))

    def _run(self, key: str, kind: SuiteKind, code: str, tests: tuple[str, ...]) -> Coroutine[Any, Any, ProgramVerdict]:
        async def ran() -> ProgramVerdict:
            plan, loop = self._plan, asyncio.get_running_loop()
            found = await loop.run_in_executor(self._threads, run_program, plan.sandbox, kind, code, tests, plan.limits)
            self._kept.show(programs=1)
            return found.model_copy(update={"verdict_id": key})

        return ran()

    def close(self) -> None:
        """Begin no more programs; running ones come to their end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

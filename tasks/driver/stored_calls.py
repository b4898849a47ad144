"""Store of a build's model answers (by request) and test verdicts (by program), for reuse."""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

from sandbox.host.slots import slot_count
from sandbox.judging.runners.run import RUNNER_VERSION
from schemas.content_id import content_id
from schemas.run import ModelIdentity
from schemas.verdict import ProgramVerdict
from tasks.language.chat_model import ChatModel, ChatRequest, Completion
from tasks.language.providers.registry import PROVIDERS
from tasks.planning.builds.build_plan import BuildPlan
from tasks.storage.journaling.dialogue_calls import answer_key, read_completion
from tasks.storage.journaling.segments import Form, read_segments
from tasks.storage.paid_calls import Calls
from tasks.worker.program_book import ProgramBook, ProgramFacts

PROGRAMS = "programs"
"""Role in the rows of programs' verdicts."""
CALLS = Form[Completion | ProgramVerdict](
    "an answer",
    lambda row: (
        ProgramVerdict.model_validate(row["verdict"])
        if "verdict" in row
        else read_completion(row["answer"])
    ),
    lambda answer: {"verdict" if isinstance(answer, ProgramVerdict) else "answer": answer},
)


@dataclass(frozen=True)
class Counts:
    """Number of calls sent in this invocation, and of stored answers reused."""

    sent: int = 0
    reused: int = 0


class StoredCalls:
    """All answers and verdicts of one dataset build.

    Args:
        count: Adds amounts to the displayed progress, such as `output_tokens=12`.
    """

    def __init__(self, folder: Path, count: Callable[..., None] = lambda **_: None) -> None:
        self._folder, self._count = folder, count
        self._calls = Calls(folder, CALLS)
        self._calls.refresh()
        self._shown: set[tuple[str, str]] = set()
        self._sent_keys: dict[str, set[str]] = defaultdict(set)
        """Keys requested in this invocation, by role."""
        self._reused_keys: dict[str, set[str]] = defaultdict(set)
        """Keys that an earlier invocation stored and this one used, by role."""
        self._n_programs = 0

    async def find(
        self, role: str, key: str, ask: Callable[[], Awaitable[Completion]]
    ) -> Completion:
        """Return the answer stored under the key, or call `ask` and store its answer.

        Errors of `ask` propagate.
        """

        async def counted() -> Completion:
            answer = await ask()
            self._sent_keys[role].add(key)
            return answer

        self._count_reuse(role, key)
        return cast(Completion, await self._calls.find(key, counted, {"role": role}))

    def get(self, verdict_id: str) -> ProgramVerdict | None:
        """Return the stored report of a program, or None. See `VerdictStore`."""
        self._count_reuse(PROGRAMS, verdict_id)
        return cast(ProgramVerdict | None, self._calls.get(verdict_id))

    def put(self, report: ProgramVerdict) -> None:
        """Store a program's report. See `VerdictStore`."""
        self._calls.put({report.verdict_id: report}, {"role": PROGRAMS})

    def count_program(self) -> None:
        """Count a program that was run in this invocation."""
        self._n_programs += 1
        self.show(programs=1)

    def _count_reuse(self, role: str, key: str) -> None:
        if key in self._calls.others:
            self._reused_keys[role].add(key)

    def show(self, *, calls: int = 0, output_tokens: int = 0, programs: int = 0) -> None:
        """Add these numbers to the displayed progress."""
        self._count(episodes=calls, output_tokens=output_tokens, programs=programs)

    def show_once(self, role: str, key: str, answer: Completion) -> None:
        """Add a role's answer to the displayed progress, once."""
        if (role, key) not in self._shown:
            self._shown.add((role, key))
            self.show(calls=1, output_tokens=answer.output_tokens or 0)

    async def drain(self) -> None:
        """Wait for calls in flight. See `CallsInFlight.drain`."""
        await self._calls.in_flight.drain()

    def close(self) -> None:
        """Close the segment to which this process appends."""
        self._calls.close()

    def calls(self, roles: Collection[str]) -> Mapping[str, Counts]:
        """Return the counts of each role."""
        return {
            role: Counts(len(self._sent_keys[role]), len(self._reused_keys[role])) for role in roles
        }

    @property
    def programs(self) -> Counts:
        """Number of programs run in this invocation, and of stored verdicts reused."""
        return Counts(self._n_programs, len(self._reused_keys[PROGRAMS]))

    @property
    def n_stored(self) -> Mapping[str, int]:
        """Number of answers from earlier invocations, by role."""
        rows = {
            row.get("key"): row.get("role", "")
            for row in read_segments(self._folder)
            if "answer" in row
        }
        return Counter(rows.values())


@dataclass
class ReusingModel:
    """Model of a role. It sends only requests whose answer is not stored.

    `open_model` is called before the first request is sent.
    """

    identity: ModelIdentity
    role: str
    calls: StoredCalls
    open_model: Callable[[], ChatModel]

    @cached_property
    def _model(self) -> ChatModel:
        return self.open_model()

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the answer to a request. See `ChatModel.complete`."""
        if PROVIDERS.load(self.identity.provider).knows_answers:
            answer = await self._model.complete(request)
            self.calls.show(calls=1)
            return answer
        key = request_key(self.identity, request)
        answer = await self.calls.find(self.role, key, lambda: self._model.complete(request))
        self.calls.show_once(self.role, key, answer)
        return answer

    async def aclose(self) -> None:
        """Close the model, if it was opened."""
        if "_model" in vars(self):
            await self._model.aclose()


def request_key(identity: ModelIdentity, request: ChatRequest) -> str:
    """Return the key of a request within its build: a digest of the model and the request.

    Turn and call index are not sent, so they are not part of the key.
    """
    sent = answer_key(identity.label, replace(request, turn=0, call_index=0))
    return content_id([identity, request.sampling, sent])


def open_build_book(plan: BuildPlan, calls: StoredCalls) -> ProgramBook:
    """Return the `ProgramBook` of a build. The host's sandbox slots limit parallel runs."""
    facts = ProgramFacts(
        RUNNER_VERSION,
        plan.sandbox.fingerprint(),
        plan.limits,
        tuple(plan.request.resources.items()),
    )
    return ProgramBook(facts, plan.sandbox, calls, slot_count())

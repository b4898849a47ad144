"""Stored calls of unfinished dialogues: steps of participants, and answers that are in no step yet.

The key of a step is a digest of its episode and of all steps before it. So a dialogue resumes by
replay: from its first step, each next step is found by its key, until one is missing. No side
effect of a stored step happens again, because a participant is only asked for missing steps.

Steps of a higher attempt are preferred, so late steps of a superseded worker are ignored. Late
answers of such a worker are used: the new attempt would request the same answers.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from schemas.content_id import content_id
from schemas.episode import Episode, Step, ToolCall
from tasks.language.chat_model import ChatRequest, Completion, WrappedModel
from tasks.storage.journaling.segments import Form, read_segments


@dataclass(frozen=True)
class DialogueCall:
    """Step of a participant or answer of a model, with the attempt that paid for it."""

    episode_id: str
    attempt: int
    """1-based number of the attempt."""
    answer: Step | Completion


DIALOGUE_CALLS = Form[DialogueCall](
    "a turn",
    lambda row: DialogueCall(
        row["episode_id"],
        row["attempt"],
        Step.model_validate(row["step"]) if "step" in row else read_completion(row["answer"]),
    ),
    lambda call: {
        "episode_id": call.episode_id,
        "attempt": call.attempt,
        "step" if isinstance(call.answer, Step) else "answer": call.answer,
    },
)


@dataclass(frozen=True)
class Unfinished:
    """Stored part of an unfinished episode: its steps, and answers that are in no step."""

    attempt: int
    """Highest attempt with a stored call."""
    steps: tuple[Step, ...] = ()
    answers: Mapping[str, Completion] = field(default_factory=dict[str, Completion])
    """Answers whose step is not complete, by key."""


class EpisodeCalls:
    """Calls of an episode that is played.

    Answers stay in memory until a program or another request begins, which takes time. Once a step
    that contains them is stored, they are dropped. So a dialogue without programs writes no
    separate answers.

    Args:
        episode_id: episode that is played.
        begun: stored part of the episode.
        put: stores steps and answers by their keys.
    """

    def __init__(
        self,
        episode_id: str,
        begun: Unfinished,
        put: Callable[[Mapping[str, Step | Completion]], None],
    ) -> None:
        self._episode_id, self._known, self._put = episode_id, dict(begun.answers), put
        self._key = key_after(episode_id, begun.steps)
        self._steps: dict[str, Step] = {}
        self._answers: list[tuple[str, ChatRequest, Completion]] = []
        self._n_used: Counter[str] = Counter()
        """Number of stored answers to each request that this attempt found or stored."""

    async def find(
        self, label: str, request: ChatRequest, ask: Callable[[], Awaitable[Completion]]
    ) -> Completion:
        """Return the stored answer to a model's request, or else the result of `ask()`.

        If an episode sends equal requests, each gets the next answer in order.
        """
        if self._known:
            key = answer_key(label, request)
            numbered = _numbered(self._episode_id, key, self._n_used[key] + 1)
            if numbered in self._known:
                self._n_used[key] += 1
                return self._known.pop(numbered)
        self.keep_answers()
        answer = await ask()
        if answer.n_calls:
            self._answers.append((label, request, answer))
        return answer

    def keep_answers(self) -> None:
        """Store the answers in memory.

        Raises:
            OSError: the answers could not be written.
        """
        answers: dict[str, Completion] = {}
        for label, request, answer in self._answers:
            key = answer_key(label, request)
            self._n_used[key] += 1
            answers[_numbered(self._episode_id, key, self._n_used[key])] = answer
        self._answers.clear()
        if answers:
            self._put(answers)

    def add(self, step: Step, *, is_paid: bool) -> None:
        """Add a step. A step without a request is stored together with the next paid step.

        Raises:
            OSError: the step could not be written.
        """
        self._steps[self._key] = step
        self._key = _next_key(self._key, step)
        if is_paid:
            self._put(self._steps)
            self._steps.clear()
            self._answers.clear()


@dataclass(frozen=True)
class ReplayedModel(WrappedModel):
    """Model that reuses the stored answers of an episode. See `ChatModel`."""

    calls: EpisodeCalls

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request. See `ChatModel.complete`."""
        return await self.calls.find(
            self.identity.label, request, lambda: self.model.complete(request)
        )


def key_after(episode_id: str, steps: Iterable[Step]) -> str:
    """Return the key of an episode's next step after `steps`."""
    key = content_id([episode_id])
    for step in steps:
        key = _next_key(key, step)
    return key


def _next_key(key: str, step: Step) -> str:
    calls = [text for call in step.calls for text in (call.call_id, call.name, call.arguments)]
    texts = [step.content, step.call_id or "", *calls]
    # A segment holds "?" instead of a lone surrogate.
    return content_id(
        [key, step.role, step.kind, *(text.encode("utf-8", "replace").decode() for text in texts)]
    )


def answer_key(label: str, request: ChatRequest) -> str:
    """Return the key of a request to the model with this label."""
    messages = [[message.role.value, message.content] for message in request.messages]
    beyond = {
        "call_index": request.call_index,
        "tools": [[tool.name, tool.description, dict(tool.parameters)] for tool in request.tools],
        "calls": [
            [n, message.calls] for n, message in enumerate(request.messages) if message.calls
        ],
        "call_ids": [
            [n, message.call_id] for n, message in enumerate(request.messages) if message.call_id
        ],
        "answer_schema": request.answer_schema,
    }
    extras = {name: value for name, value in beyond.items() if value}
    return content_id([label, request.turn, request.seed, messages, *([extras] if extras else [])])


def _numbered(episode_id: str, key: str, number: int) -> str:
    """Return the key of an episode's answer to the `number`th request with this `answer_key`."""
    return content_id([episode_id, key, number])


def read_completion(answer: Mapping[str, Any]) -> Completion:
    """Return the answer that a row of a segment contains."""
    calls = tuple(ToolCall.model_validate(call) for call in answer.get("calls", ()))
    return Completion(**{**answer, "calls": calls, "adapted": tuple(answer.get("adapted", ()))})


def read_unfinished(
    folder: Path, ids: Iterable[str] | None = None, ended: Sequence[Episode] = ()
) -> dict[str, Unfinished]:
    """Return the stored part of each episode that has one, by id.

    Answers of an ended attempt are left out, because they may have caused its fault.

    Args:
        folder: folder of a run's dialogue calls.
        ids: episodes to read; None for all.
        ended: attempts in the lake that ended as infra.
    """
    wanted = None if ids is None else set(ids)
    calls: dict[str, dict[str, DialogueCall]] = defaultdict(dict)
    old: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_segments(folder):
        name = row.get("episode_id", "")
        if wanted is None or name in wanted:
            _prefer_later(calls[name], DIALOGUE_CALLS.read(row))
            if "steps" in row:
                old[name].append(row)
    for name, rows in old.items():
        _prefer_later(calls[name], _calls_of_old_rows(name, rows))
    n_ended = {episode.episode_id: episode.attempt for episode in ended}
    for episode in ended:
        name = episode.episode_id
        _prefer_later(calls[name], _calls_of_steps(name, episode.attempt, episode.steps))
    return {
        name: Unfinished(
            max([n_ended.get(name, 0), *(call.attempt for call in of_one.values())]),
            _replay(name, of_one),
            {
                key: call.answer
                for key, call in of_one.items()
                if isinstance(call.answer, Completion) and call.attempt > n_ended.get(name, 0)
            },
        )
        for name, of_one in calls.items()
        if of_one or name in n_ended
    }


def _prefer_later(calls: dict[str, DialogueCall], more: Mapping[str, DialogueCall]) -> None:
    """Add calls. Of two calls with one key, the call of the higher attempt remains."""
    for key, call in more.items():
        if key not in calls or call.attempt > calls[key].attempt:
            calls[key] = call


def _replay(episode_id: str, calls: Mapping[str, DialogueCall]) -> tuple[Step, ...]:
    """Return the steps from the beginning to the first missing step."""
    steps, attempt, key = list[Step](), 0, key_after(episode_id, ())
    while (call := calls.get(key)) and isinstance(call.answer, Step) and call.attempt >= attempt:
        steps.append(call.answer)
        attempt, key = call.attempt, _next_key(key, call.answer)
    return tuple(steps)


def _calls_of_steps(
    episode_id: str, attempt: int, steps: Iterable[Step]
) -> dict[str, DialogueCall]:
    calls, key = dict[str, DialogueCall](), key_after(episode_id, ())
    for step in steps:
        calls[key] = DialogueCall(episode_id, attempt, step)
        key = _next_key(key, step)
    return calls


def _calls_of_old_rows(
    episode_id: str, rows: Sequence[Mapping[str, Any]]
) -> dict[str, DialogueCall]:
    """Return the calls in rows of 0.1.0, which hold steps with their position in the episode.

    The first row of an attempt repeats all earlier steps, so only the highest attempt counts.
    """
    attempt = max(row.get("attempt", 0) for row in rows)
    steps: dict[int, Step] = {}
    answers: dict[str, DialogueCall] = {}
    n_answers: Counter[str] = Counter()
    for row in rows:
        with suppress(KeyError, TypeError, ValueError):  # a damaged row
            if row["attempt"] == attempt:
                for at, step in enumerate(row["steps"], row.get("at", 0)):
                    steps.setdefault(at, Step.model_validate(step))
            for request, answer in row.get("answers", {}).items():
                call = DialogueCall(episode_id, row["attempt"], read_completion(answer))
                n_answers[request] += 1
                answers[_numbered(episode_id, request, n_answers[request])] = call
    in_order = (steps[at] for at in takewhile(steps.__contains__, count()))
    return answers | _calls_of_steps(episode_id, attempt, in_order)

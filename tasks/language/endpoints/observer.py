"""Observation of the requests behind a model's answer: when each is sent, and how it ends."""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from tasks.language.endpoints.faults import Fault

T = TypeVar("T")


class RequestObserver(Protocol):
    """Observer of the requests of one caller, on the caller's event loop."""

    def sent(self) -> None:
        """Record that a request is in flight."""
        ...

    def ended(self, fault: str) -> None:
        """Record that a request has ended.

        Args:
            fault: Kind of its fault. Empty for an answer.
        """
        ...


_observer: ContextVar[RequestObserver | None] = ContextVar("parley_request_observer", default=None)


@contextmanager
def observed_by(observer: RequestObserver) -> Iterator[None]:
    """Report all requests that this task sends within the block to the observer."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


async def observed(request: Awaitable[T | Fault]) -> T | Fault:
    """Send a request and return its result. Report it to the task's observer, if there is one."""
    observer = _observer.get()
    if observer is None:
        return await request
    observer.sent()
    fault = ""
    try:
        outcome = await request
        fault = outcome.kind if isinstance(outcome, Fault) else ""
    finally:
        observer.ended(fault)
    return outcome

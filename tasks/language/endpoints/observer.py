"""Lets the caller of a model see the requests that its answer takes: when one is sent, and how it ends."""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from tasks.language.endpoints.faults import Fault

T = TypeVar("T")


class RequestObserver(Protocol):
    """Sees the requests of one caller, on the caller's event loop."""

    def sent(self) -> None:
        """Note that a request is in flight."""
        ...

    def ended(self, fault: str) -> None:
        """Note that a request is in flight no more.

        Args:
            fault: kind of the fault that it ended with; empty for an answer.
        """
        ...


_observer: ContextVar[RequestObserver | None] = ContextVar("parley_request_observer", default=None)


@contextmanager
def observed_by(observer: RequestObserver) -> Iterator[None]:
    """Show the observer all requests that this task sends within the block."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


async def observed(request: Awaitable[T | Fault]) -> T | Fault:
    """Send a request and return what it brings. The task's observer, if there is one, sees it."""
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

"""Event loop in a separate thread, while the main thread handles signals."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from tasks.driver.signals import heed_signals

T = TypeVar("T")
_HEED_EVERY_S = 0.2
_END_LIMIT_S = 3.0


class OwnLoop:
    """Runner of one coroutine in a separate thread.

    The main thread starts the model servers that the coroutine needs, because the operating system
    kills a server when the thread that started the server ends.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._errands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waits: Future[Any] = Future()
        """Result of the function in the main thread that the loop waits for."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end while the main thread waits.

        Raises:
            SystemExit, KeyboardInterrupt: A signal was received. The coroutine was cancelled.
        """
        thread = threading.Thread(
            target=self._loop.run_forever, name="parley-build-loop", daemon=True
        )
        thread.start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(lambda _: self._errands.put(lambda: None))
        try:
            while not future.done():
                heed_signals()
                with suppress(Empty):
                    self._errands.get(timeout=_HEED_EVERY_S)()
            return future.result()
        finally:
            self._waits.cancel()
            future.cancel()
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(_cancel_rest(), self._loop).result(_END_LIMIT_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(_END_LIMIT_S)
            if not thread.is_alive():
                self._loop.close()

    def in_main_thread(self, errand: Callable[[], T]) -> T:
        """Run a function in the main thread and wait for its result. Call this on the loop."""
        answer: Future[T] = Future()
        self._waits = answer

        def do() -> None:
            try:
                answer.set_result(errand())
            except Exception as error:  # noqa: BLE001  (raised again where it was asked for)
                answer.set_exception(error)
            except BaseException:
                answer.cancel()
                raise

        self._errands.put(do)
        return answer.result()


async def _cancel_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)

"""Measurement of vLLM servers every half minute, for the lake's table `serving`."""

import logging
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from schemas.content_id import content_id
from schemas.errors import ParleyError
from schemas.lake.records import utc_now
from schemas.night.serving import Serving
from tasks.language.servers.vllm_metrics import COUNTERS, NoMetrics, ServerMetrics, ask_metrics
from tasks.storage.parquet_store import Lake

EVERY_S = 30.0
_LOG = logging.getLogger("parley.serving")


class ServingMeter:
    """Meter of one model's replicas while the block runs. A failed measurement stops no night.

    Args:
        urls: Base URL of each replica. The replicas have just been started.
    """

    def __init__(
        self,
        lake: Lake,
        night_id: str,
        model: str,
        served_name: str,
        urls: Sequence[str],
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._lake, self._night_id, self._model, self._served_name = (
            lake,
            night_id,
            model,
            served_name,
        )
        self._urls, self._every_s = tuple(urls), every_s
        self._part = content_id([model, served_name, utc_now(), list(urls)])
        self._rows: list[Serving] = []
        self._last: dict[str, tuple[ServerMetrics | None, float, str]] = {}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._look_again, name="parley-serving", daemon=True)

    def __enter__(self) -> Self:
        for url in self._urls:
            self._last[url] = (_metrics_of(url), time.monotonic(), utc_now())
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if kind is None or issubclass(kind, Exception):  # A signal ends the night at once.
            self.look()

    def look(self) -> None:
        """Measure all replicas now, and write what they served since the last measurement."""
        with self._lock:
            new = [
                row
                for replica, url in enumerate(self._urls)
                if (row := self._row(replica, url)) is not None
            ]
            if not new:
                return
            self._rows += new
            try:
                self._lake.write_part("serving", self._rows, self._part, night_id=self._night_id)
            except (ParleyError, OSError) as error:
                _LOG.warning("the metrics of vLLM's servers cannot be stored: %s", error)

    def _look_again(self) -> None:
        while not self._over.wait(self._every_s):
            self.look()

    def _row(self, replica: int, url: str) -> Serving | None:
        """Return the requests and tokens that a replica served since the last measurement.

        Return None if the replica served nothing or does not answer.
        """
        now = _metrics_of(url)
        if now is None:
            return None
        before, then_s, then = self._last[url]
        here_s, here = time.monotonic(), utc_now()
        self._last[url] = (now, here_s, here)
        if before is None:
            return None
        is_restarted = any(now.counters[name] < before.counters[name] for name in COUNTERS)
        done = {
            name: n - (0 if is_restarted else before.counters[name])
            for name, n in now.counters.items()
        }
        if not any(done.values()) and not now.running and not now.waiting and not is_restarted:
            return None
        return Serving(
            night_id=self._night_id,
            model=self._model,
            served_name=self._served_name,
            replica=replica,
            from_at=then,
            to_at=here,
            seconds=max(here_s - then_s, 0.001),
            **done,
            running=now.running,
            waiting=now.waiting,
            kv_cache_share=now.kv_cache_share,
            is_restarted=is_restarted,
        )


def _metrics_of(url: str) -> ServerMetrics | None:
    try:
        return ask_metrics(url)
    except (OSError, NoMetrics, ValueError) as error:
        _LOG.info("no metrics of %s: %s", url, error)
        return None

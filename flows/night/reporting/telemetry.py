# pyright: reportMissingImports=false, reportArgumentType=false
"""Metrics and spans of a night, sent to an OpenTelemetry collector.

Only nights with a collector import this module.

Workers log their model calls in files (`tasks.worker.call_log`), which this process reads and
sends. It sends counts, names of models and settings, and addresses of endpoints. It never sends
texts of prompts and answers, keys or headers.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, set_span_in_context

from flows.night.reporting.progress import Board
from schemas.errors import ParleyError
from schemas.lake.records import ServedHours
from schemas.night.work import StageTime
from tasks.driver.signals import repeating
from tasks.language.providers.registry import is_served_here
from tasks.planning.participants.models import token_price
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.report import RunReport
from tasks.planning.version import parley_version
from tasks.storage.journaling.segments import SegmentReader, is_being_written
from tasks.worker.call_log import DRIFT, JUDGE

_LOOK_EVERY_S = 1.0
_EXPORT_EVERY_MS = 10_000
_REQUEST_S = 5.0
"""Time limit in seconds of one request to the collector, including retries."""
_EXIT_S, _EXIT_BY_SIGNAL_S = 5.0, 1.0
"""Time limits in seconds of the last export, so that a dead collector delays nothing."""
_LATENCIES_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
_Attributes = Mapping[str, str]


class Telemetry:
    """Metrics and spans of one night. Call `follow` for each run before its models get requests."""

    def __init__(self, url: str, night_id: str, folder: Path, board: Board) -> None:
        self._night_id, self._board = night_id, board
        resource = Resource.create(
            {
                "service.name": "parley",
                "service.version": parley_version(),
                "service.instance.id": night_id,
            }
        )
        exporter = OTLPMetricExporter(endpoint=f"{url}/v1/metrics", timeout=_REQUEST_S)
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=_EXPORT_EVERY_MS)
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracers.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces", timeout=_REQUEST_S))
        )
        self._counts = _Instruments(self._meters, self._queues)
        self._spans = _Spans(self._tracers, night_id)
        self._reader = SegmentReader(folder)
        self._lock = threading.RLock()
        self._plans: dict[str, RunPlan] = {}
        self._roles: dict[tuple[str, str], _RoleMetrics] = {}
        self._open: dict[Path, dict[tuple[str, str], tuple[int, int]]] = {}
        """Numbers of waiting and sent requests, by log file of a process, then by (run id, role).

        A role is played by one model in a run, such as the judge of one rubric.
        """
        self._n_times = 0

    def follow(self, plan: RunPlan) -> None:
        """Register the models of a run, each in its role, so that their rows are counted."""
        with self._lock:
            if plan.run_id not in self._plans:
                self._plans[plan.run_id] = plan
                self._roles |= {(plan.run_id, name): role for name, role in _roles_of(plan)}

    def look(self) -> bool:
        """Read the rows that workers logged since the last call, and the stages that ended."""
        with self._lock, suppress(OSError):  # An unreadable file is read at the next call.
            for segment, row in self._reader.new_rows(self._reader.segments()):
                role = self._roles.get((row["run"], row["seat"]))
                if role is None:
                    continue
                if "waiting" in row:
                    self._open.setdefault(segment, {})[row["run"], row["seat"]] = (
                        row["waiting"],
                        row["in_flight"],
                    )
                elif "fault" in row:
                    self._counts.faults.add(1, {**role.attributes, "parley.fault": row["fault"]})
                else:
                    self._counts.answer(role, row)
            times = self._board.times(self._night_id)
            for stage in times[self._n_times :]:
                self._spans.stage(stage, self._plans.get(stage.run_id))
            self._n_times = len(times)
        return True

    def _queues(self) -> Iterator[tuple[_Attributes, int, int]]:
        """Yield each role's numbers of waiting and sent requests, summed over running processes."""
        with self._lock:
            sums: dict[tuple[tuple[str, str], ...], tuple[int, int]] = {}
            for segment, queues in self._open.items():
                is_alive = segment.exists() and is_being_written(segment)
                for key, (waiting, in_flight) in queues.items():
                    name = tuple(sorted(self._roles[key].attributes.items()))
                    so_far = sums.get(name, (0, 0))
                    sums[name] = so_far[0] + waiting * is_alive, so_far[1] + in_flight * is_alive
        for name, (waiting, in_flight) in sums.items():
            yield dict(name), waiting, in_flight

    def close(self, reports: Iterable[RunReport], *, by_signal: bool) -> None:
        """Send all remaining data, within a few seconds.

        If a signal ended the night, little time is left, so the cost of server hours is not sent.
        """
        self.look()
        with self._lock:
            for plan in () if by_signal else self._plans.values():
                with suppress(OSError, ParleyError):  # metrics must not fail a run
                    for hours in plan.lake.read("served_hours", ServedHours, **plan.keys):
                        if hours.night_id == self._night_id:
                            self._counts.server(self._roles.values(), plan, hours)
            self._open = {
                segment: dict.fromkeys(queues, (0, 0)) for segment, queues in self._open.items()
            }
            self._spans.end({report.run_id: report.status for report in reports})
        deadline = time.monotonic() + (_EXIT_BY_SIGNAL_S if by_signal else _EXIT_S)
        endings = [self._meters.shutdown, self._tracers.shutdown]
        threads = [
            threading.Thread(target=end, name="parley-telemetry-end", daemon=True)
            for end in endings
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


@contextmanager
def exporting(
    url: str,
    night_id: str,
    folder: Path,
    board: Board,
    find_reports: Callable[[], Iterable[RunReport]],
) -> Iterator[Telemetry]:
    """Send metrics and spans to `url` (without `/v1/metrics`) during the block.

    An unreachable collector causes one warning and stops no run.
    """
    with _warning_once(url):
        telemetry = Telemetry(url, night_id, folder, board)
        by_signal = False
        try:
            with repeating(telemetry.look, _LOOK_EVERY_S, "parley-telemetry"):
                yield telemetry
        except BaseException as error:
            by_signal = not isinstance(error, Exception)
            raise
        finally:
            telemetry.close(find_reports(), by_signal=by_signal)


@contextmanager
def _warning_once(url: str) -> Iterator[None]:
    """Print one warning at the exporter's first failure, and drop the exporter's own messages."""
    parts = urlsplit(url)
    handler = _FirstFailure(f"{parts.scheme}://{parts.netloc}")
    logger = logging.getLogger("opentelemetry")
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class _FirstFailure(logging.Handler):
    def __init__(self, place: str) -> None:
        super().__init__(logging.ERROR)
        self._place, self._has_warned = place, False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._has_warned:
            self._has_warned = True
            print(
                f"parley: metrics could not be sent to {self._place}: the collector does not"
                " answer or rejects them. Runs are not affected",
                file=sys.stderr,
            )


class _RoleMetrics(NamedTuple):
    """Model in one role of a run: the attributes of its metrics, and its prices (None: unknown)."""

    attributes: _Attributes
    price: tuple[float, float] | None
    usd_per_hour: float | None


def _roles_of(plan: RunPlan) -> Iterator[tuple[str, _RoleMetrics]]:
    """Yield (name, role) for each model in one role of the run. Workers' logs use the name."""
    roles = [(model.role, model.role, model) for model in plan.models if model.role != JUDGE]
    for rubric, judge in plan.judges.items():
        roles += [(f"{JUDGE} {rubric}", JUDGE, judge), (f"{DRIFT} {rubric}", "judge_drift", judge)]
    for role, kind, model in roles:
        attributes = {
            "parley.endpoint": _address(model.identity.provider, model.access.endpoint.base_url),
            "parley.role": kind,
            "parley.model": model.identity.label,
            "parley.setting": plan.request.benchmark.name,
        }
        yield (
            role,
            _RoleMetrics(attributes, token_price(plan.lake, model), model.request.usd_per_hour),
        )


def _address(provider: str, url: str | None) -> str:
    """Return an endpoint's address without user, password and query.

    Return the provider's name if Parley serves the model or the endpoint has no address.
    """
    if not url or is_served_here(provider):
        return provider
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class _Instruments:
    """Metrics of the night. Each value carries the attributes of a role."""

    def __init__(
        self,
        provider: MeterProvider,
        read_queues: Callable[[], Iterator[tuple[_Attributes, int, int]]],
    ) -> None:
        meter = provider.get_meter("parley", parley_version())
        self._turns = meter.create_counter(
            "parley.turns", "{turn}", "Messages of a participant, or judgements of a judge"
        )
        self._calls = meter.create_counter(
            "parley.calls", "{request}", "Requests sent for stored answers, including retries"
        )
        self._tokens = meter.create_counter(
            "parley.tokens",
            "{token}",
            "Tokens as the endpoint counts them; `reasoning` is in `output`",
        )
        self._uncounted = meter.create_counter(
            "parley.answers.uncounted",
            "{answer}",
            "Answers whose tokens the endpoint did not count",
        )
        self._latency = meter.create_histogram(
            "parley.answer.duration",
            "s",
            "Time from request to answer",
            explicit_bucket_boundaries_advisory=_LATENCIES_S,
        )
        self._cost = meter.create_counter(
            "parley.cost",
            "USD",
            "Cost of tokens or of server hours; absent if the price is unknown",
        )
        self.faults = meter.create_counter(
            "parley.faults", "{request}", "Requests that ended with a fault, by kind"
        )
        for name, text, at in (
            (
                "parley.requests.waiting",
                "Requests that wait for the endpoint's limit, a retry or its recovery",
                0,
            ),
            ("parley.requests.in_flight", "Requests that were sent and are not answered yet", 1),
        ):
            meter.create_observable_gauge(name, [_observed(read_queues, at)], "{request}", text)

    def answer(self, role: _RoleMetrics, row: Mapping[str, Any]) -> None:
        """Count an answer that a worker stored."""
        attributes = role.attributes
        self._turns.add(row["turns"], attributes)
        self._calls.add(row["calls"], attributes)
        tokens = {
            kind: row[kind] for kind in ("input", "output", "reasoning") if row[kind] is not None
        }
        for kind, n in tokens.items():
            self._tokens.add(n, {**attributes, "parley.token.type": kind})
        if row["calls"] and not {"input", "output"} <= tokens.keys():
            self._uncounted.add(1, attributes)
        elif row["calls"] and role.price is not None:
            usd = (tokens["input"] * role.price[0] + tokens["output"] * role.price[1]) / 1e6
            self._cost.add(usd, {**attributes, "parley.cost.by": "tokens"})
        if row["latency"] is not None:
            self._latency.record(row["latency"], attributes)

    def server(self, roles: Iterable[_RoleMetrics], plan: RunPlan, served: ServedHours) -> None:
        """Count what a run costs on a model server that Parley started."""
        name = {
            "parley.role": served.role,
            "parley.model": served.role_model,
            "parley.setting": plan.request.benchmark.name,
        }
        role = next(
            (candidate for candidate in roles if name.items() <= candidate.attributes.items()), None
        )
        if role is not None and role.usd_per_hour is not None and served.hours is not None:
            self._cost.add(
                served.hours * role.usd_per_hour, {**role.attributes, "parley.cost.by": "hours"}
            )


def _observed(
    read_queues: Callable[[], Iterator[tuple[_Attributes, int, int]]], at: int
) -> Callable[[CallbackOptions], Iterator[Observation]]:
    def observe(_: CallbackOptions) -> Iterator[Observation]:
        for attributes, *counts in read_queues():
            yield Observation(counts[at], attributes)

    return observe


class _Spans:
    """Spans of the night: the night's span contains one span per run, which contains one per stage.

    A span is sent when it ends.
    """

    def __init__(self, provider: TracerProvider, night_id: str) -> None:
        self._tracer = provider.get_tracer("parley", parley_version())
        self._night_id = night_id
        self._night: Span | None = None
        self._runs: dict[str, Span] = {}
        self._ended_ns: dict[str, int] = {}

    def stage(self, stage: StageTime, plan: RunPlan | None) -> None:
        """Send a finished stage."""
        began_ns = int(datetime.fromisoformat(stage.started_at).timestamp() * 1e9)
        ended_ns = began_ns + int(stage.seconds * 1e9)
        if self._night is None:
            self._night = self._tracer.start_span(
                "night", start_time=began_ns, attributes={"parley.night_id": self._night_id}
            )
        parent = self._night
        if stage.run_id:
            if stage.run_id not in self._runs:
                facts = {"parley.run_id": stage.run_id}
                if plan is not None:
                    facts |= {
                        "parley.setting": plan.request.benchmark.name,
                        "parley.model": plan.spec.label,
                    }
                context = set_span_in_context(self._night)
                self._runs[stage.run_id] = self._tracer.start_span(
                    "run", context, start_time=began_ns, attributes=facts
                )
            parent = self._runs[stage.run_id]
        span = self._tracer.start_span(
            stage.stage, set_span_in_context(parent), start_time=began_ns
        )
        span.end(ended_ns)
        for name in {"", stage.run_id}:
            self._ended_ns[name] = max(self._ended_ns.get(name, 0), ended_ns)

    def end(self, statuses: Mapping[str, str]) -> None:
        """End the spans of the runs, with their states, and the span of the night."""
        for run_id, span in self._runs.items():
            if run_id in statuses:
                span.set_attribute("parley.status", statuses[run_id])
            span.end(self._ended_ns[run_id])
        if self._night is not None:
            self._night.end(self._ended_ns[""])

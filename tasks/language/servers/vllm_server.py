"""Launcher of `vllm serve` for `vllm:PATH_OR_REPO`, one server per replica on free loopback ports.

A supervisor process restarts servers that end. When its own parent ends, even by SIGKILL, it ends
them with all descendants.
"""

import argparse
import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tasks.language.servers.server_process import (
    end_with_parent,
    first_error,
    report_progress,
    report_ready,
    server_process,
    take_stdout,
)
from tasks.language.servers.vllm_replica import WATCHER, Replica, adopt_orphans, end_everything
from tasks.language.servers.vllm_settings import ServeCommand

HUB_KEYS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Environment variables with keys of the hub, which vLLM needs for gated weights."""
_POLL_S = 0.5
_TELL_S = 2.0


@contextmanager
def vllm_servers(
    label: str,
    commands: Sequence[ServeCommand],
    name: str,
    log: Path,
    *,
    ready_s: float,
    restarts: int = 3,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[str, ...]]:
    """Serve a model by vLLM during the block. Yield the base URLs when all replicas are healthy.

    A replica that ends is restarted on its port.

    Args:
        label: Label of the model, for messages.
        commands: Command of each replica.
        name: Served model's name, which the servers must report.
        log: Log of the first replica. Logs of others have their number before the suffix
            (`NAME.1.log`).
        ready_s: Time limit of the start in seconds. Large weights take minutes.
        restarts: Maximum number of restarts of a replica.
        on_progress: Called with the phase of the start.

    Raises:
        ModelUnavailable: A server did not start. The message contains the log's first error, or its
            last lines.
    """
    task = {
        "name": name,
        "log": str(log),
        "restarts": restarts,
        "commands": [
            {"arguments": command.arguments, "environment": dict(command.environment)}
            for command in commands
        ],
    }
    arguments = ("--servers", json.dumps(task))
    with server_process(
        label, WATCHER, arguments, log, ready_s=ready_s, keys=HUB_KEYS, on_progress=on_progress
    ) as addresses:
        yield tuple(addresses.split())


def main() -> None:
    """Supervise vLLM's servers in this process until the parent ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.language.servers.vllm_server", description=__doc__
    )
    parser.add_argument(
        "--servers",
        type=json.loads,
        required=True,
        help="commands, name, log and restarts, as JSON",
    )
    parser.add_argument(
        "--parent",
        type=int,
        required=True,
        help="id of the process with which this one and vLLM end",
    )
    arguments = parser.parse_args()
    task, over = arguments.servers, threading.Event()
    commands = [
        ServeCommand(tuple(command["arguments"]), command["environment"])
        for command in task["commands"]
    ]
    log = Path(task["log"])
    replicas = [
        Replica(command, log.with_suffix(f".{i}.log") if i else log)
        for i, command in enumerate(commands)
    ]
    report = take_stdout()
    adopt_orphans()

    ending = threading.Lock()  # Both callers of `end` return only after everything has ended.

    def end() -> None:
        over.set()
        with ending:
            threads = [threading.Thread(target=replica.end) for replica in replicas]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            end_everything()

    end_with_parent(arguments.parent, end)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        for replica in replicas:
            replica.start()
        _await_health(replicas, task["name"], lambda text: report_progress(report, text), over)
        report_ready(report, " ".join(replica.base_url for replica in replicas))
        _keep_up(replicas, task["restarts"], over)
    finally:
        end()


def _await_health(
    replicas: Sequence[Replica], name: str, report: Callable[[str], None], over: threading.Event
) -> None:
    begun_s = reported_s = time.monotonic()
    waiting = list(replicas)
    while waiting and not over.is_set():
        for replica in list(waiting):
            status = replica.exit_status()
            if status is not None:
                _show_tail(replicas, replica)
                sys.exit(
                    f"vLLM ended during its start with exit status {status}; see {replica.log}"
                )
            if replica.is_healthy():
                if (served := replica.served_models()) != [name]:
                    sys.exit(
                        f"the server on port {replica.port} serves"
                        f" {', '.join(served) or 'no model'}, not {name}"
                    )
                waiting.remove(replica)
        if waiting and time.monotonic() - reported_s >= _TELL_S:
            reported_s = time.monotonic()
            ready = (
                f", {len(replicas) - len(waiting)} of {len(replicas)} replicas ready"
                if len(replicas) > 1
                else ""
            )
            report(f"vLLM {waiting[0].phase()}, {reported_s - begun_s:.0f} s{ready}")
        over.wait(_POLL_S)


def _show_tail(replicas: Sequence[Replica], failed: Replica) -> None:
    """Print another replica's first error, or its last lines, to the log that the parent reads."""
    if failed is not replicas[0]:
        with contextlib.suppress(OSError):
            text = failed.log.read_text("utf-8", "replace")
            numbered_error = first_error(text)
            shown = (
                [f"Traceback (most recent call last): see {failed.log}", numbered_error[1]]
                if numbered_error
                else text.splitlines()[-4:]
            )
            print("\n".join(shown), file=sys.stderr)


def _keep_up(replicas: Sequence[Replica], restarts: int, over: threading.Event) -> None:
    """Restart replicas that end, until `over` is set or all have reached the limit."""
    alive = list(replicas)
    while alive and not over.wait(_POLL_S):
        for replica in list(alive):
            status = replica.exit_status()
            if status is None:
                continue
            with contextlib.suppress(OSError):
                replica.end()
            if replica.restarts >= restarts:
                print(
                    f"parley: vLLM on port {replica.port} ended ({status}); restart limit reached",
                    file=sys.stderr,
                    flush=True,
                )
                alive.remove(replica)
                continue
            replica.restarts += 1
            print(
                f"parley: vLLM on port {replica.port} ended ({status}): restart"
                f" {replica.restarts} of {restarts}",
                file=sys.stderr,
                flush=True,
            )
            replica.start()


if __name__ == "__main__":
    main()

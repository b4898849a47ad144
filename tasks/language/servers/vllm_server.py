"""Launcher for `vllm:PATH_OR_REPO`: `vllm serve` on free loopback ports, one for each replica, while a block runs.

A process of our own stands between: it starts the servers again where they die, and ends them, with everything that they started,
when its parent ends, by SIGKILL too.
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

from tasks.language.servers.server_log import first_error
from tasks.language.servers.server_process import (
    end_with_parent,
    report_progress,
    report_ready,
    server_process,
    take_stdout,
)
from tasks.language.servers.vllm_command import ServeCommand
from tasks.language.servers.vllm_replica import WATCHER, Replica, adopt_orphans, end_everything

HUB_KEYS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Gated weights are fetched with them."""
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
    """Serve a model by vLLM; yields the base URL of each replica when all of them are healthy and serve that model.

    A replica that dies later is started again on its port.

    Args:
        commands: of each replica.
        name: the served model's name, which the servers must tell.
        log: gets what the first replica writes; a further one's log has its number before the suffix (`NAME.1.log`).
        ready_s: loading large weights takes minutes.
        restarts: how often a replica is started again.
        on_progress: gets what the servers are at while they start.

    Raises:
        ModelUnavailable: a server did not start; holds the log's first error, or its last lines.
    """
    told = {
        "name": name,
        "log": str(log),
        "restarts": restarts,
        "commands": [
            {"arguments": command.arguments, "environment": dict(command.environment)}
            for command in commands
        ],
    }
    arguments = ("--servers", json.dumps(told))
    with server_process(
        label, WATCHER, arguments, log, ready_s=ready_s, keys=HUB_KEYS, on_progress=on_progress
    ) as addresses:
        yield tuple(addresses.split())


def main() -> None:
    """The process that watches over vLLM's: serve the model until the parent ends."""
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
        help="process whose end ends this one, and vLLM with it",
    )
    given = parser.parse_args()
    told, over = given.servers, threading.Event()
    commands = [
        ServeCommand(tuple(one["arguments"]), one["environment"]) for one in told["commands"]
    ]
    log = Path(told["log"])
    replicas = [
        Replica(command, log.with_suffix(f".{i}.log") if i else log)
        for i, command in enumerate(commands)
    ]
    report = take_stdout()
    adopt_orphans()

    ending = threading.Lock()  # of two that end all, none may leave before the other is through

    def end() -> None:
        over.set()
        with ending:
            threads = [threading.Thread(target=replica.end) for replica in replicas]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            end_everything()

    end_with_parent(given.parent, end)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        for replica in replicas:
            replica.start()
        _await_health(replicas, told["name"], lambda text: report_progress(report, text), over)
        report_ready(report, " ".join(replica.base_url for replica in replicas))
        _keep_up(replicas, told["restarts"], over)
    finally:
        end()


def _await_health(
    replicas: Sequence[Replica], name: str, tell: Callable[[str], None], over: threading.Event
) -> None:
    begun_s = told_s = time.monotonic()
    waiting = list(replicas)
    while waiting and not over.is_set():
        for replica in list(waiting):
            status = replica.exit_status()
            if status is not None:
                _show_tail(replicas, replica)
                sys.exit(
                    f"vLLM ended at its start with exit status {status}; its log is {replica.log}"
                )
            if replica.is_healthy():
                if (served := replica.served_models()) != [name]:
                    sys.exit(
                        f"the server on port {replica.port} serves"
                        f" {', '.join(served) or 'no model'}, not {name}"
                    )
                waiting.remove(replica)
        if waiting and time.monotonic() - told_s >= _TELL_S:
            told_s = time.monotonic()
            ready = (
                f", {len(replicas) - len(waiting)} of {len(replicas)} replicas ready"
                if len(replicas) > 1
                else ""
            )
            tell(f"vLLM {waiting[0].phase()}, {told_s - begun_s:.0f} s{ready}")
        over.wait(_POLL_S)


def _show_tail(replicas: Sequence[Replica], failed: Replica) -> None:
    """Another replica's first error, or its last lines, go where the parent looks for them."""
    if failed is not replicas[0]:
        with contextlib.suppress(OSError):
            text = failed.log.read_text("utf-8", "replace")
            found = first_error(text)
            shown = (
                [f"Traceback (most recent call last): see {failed.log}", found[1]]
                if found
                else text.splitlines()[-4:]
            )
            print("\n".join(shown), file=sys.stderr)


def _keep_up(replicas: Sequence[Replica], restarts: int, over: threading.Event) -> None:
    """Start what dies again, until all is over or every replica has died too often."""
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
                    f"parley: vLLM on port {replica.port} ended ({status}) and is not started"
                    " again",
                    file=sys.stderr,
                    flush=True,
                )
                alive.remove(replica)
                continue
            replica.restarts += 1
            print(
                f"parley: vLLM on port {replica.port} ended ({status}): start {replica.restarts}"
                f" of {restarts} again",
                file=sys.stderr,
                flush=True,
            )
            replica.start()


if __name__ == "__main__":
    main()

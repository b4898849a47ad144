"""Tries the sandbox before a night: known cheats must not pass, and known golds must pass."""

import time
from collections.abc import Iterable

from sandbox import registry as sandboxes
from sandbox.canary.release import Canary, release_canary
from schemas.errors import NightVoid


def require_live_canary(names: Iterable[str]) -> tuple[str, ...]:
    """Run the canary in each sandbox of a night; returns a line about each.

    Args:
        names: the requests' names of sandboxes.

    Raises:
        NightVoid: a cheat passed, or a gold did not; names them. Nothing was started or paid for.
        SandboxUnavailable: a sandbox cannot run programs here.
        UnknownName: there is no such sandbox.
    """
    return tuple(_line(name) for name in sorted(set(names)))


def _line(name: str) -> str:
    started = time.monotonic()
    canary = release_canary(sandboxes.load(name))
    if not canary.is_alive:
        raise NightVoid(_what_died(name, canary))
    took_s = time.monotonic() - started
    return f"canary in sandbox {name}: {canary.n_attacks} attacks held, {canary.n_golds} golds passed, {took_s:.1f} s"


def _what_died(name: str, canary: Canary) -> str:
    said: list[str] = []
    if canary.passed:
        said.append(f"attacks that passed: {'; '.join(canary.passed)}")
    if canary.failed:
        said.append(f"golds that did not pass: {'; '.join(canary.failed)}")
    return (
        f"the night is void: in sandbox {name!r} {', and '.join(said)}. No verdict of it could be trusted, so nothing was"
        " started or paid for. Look with `parley doctor`, or name another sandbox in the configuration"
    )

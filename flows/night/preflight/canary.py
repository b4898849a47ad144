"""Sandbox test before a night: known cheats must fail, and reference solutions must pass."""

import time
from collections.abc import Iterable

from sandbox import registry as sandboxes
from sandbox.canary.release import Canary, release_canary
from schemas.errors import NightVoid


def require_live_canary(names: Iterable[str]) -> tuple[str, ...]:
    """Run the canary in each sandbox of a night. Return one line per sandbox.

    Args:
        names: Names of the sandboxes in the requests.

    Raises:
        NightVoid: A cheat passed, or a reference solution failed. The message names them. Nothing
            was started or paid for.
        SandboxUnavailable: A sandbox cannot run programs here.
        UnknownName: No sandbox has this name.
    """
    return tuple(_line(name) for name in sorted(set(names)))


def _line(name: str) -> str:
    started = time.monotonic()
    canary = release_canary(sandboxes.load(name))
    if not canary.is_alive:
        raise NightVoid(_void_message(name, canary))
    took_s = time.monotonic() - started
    return (
        f"canary in sandbox {name}: {canary.n_attacks} attacks blocked,"
        f" {canary.n_golds} reference solutions passed, {took_s:.1f} s"
    )


def _void_message(name: str, canary: Canary) -> str:
    faults: list[str] = []
    if canary.passed:
        faults.append(f"attacks that passed: {'; '.join(canary.passed)}")
    if canary.failed:
        faults.append(f"reference solutions that failed: {'; '.join(canary.failed)}")
    return (
        f"the night was not started: in sandbox {name!r} {', and '.join(faults)}. Its verdicts"
        " could not be trusted. Nothing was paid for. Run `parley doctor` for details, or name"
        " another sandbox in the configuration"
    )

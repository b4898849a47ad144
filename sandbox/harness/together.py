"""The supervisor's part where several instructions' tests start from the state that the code left, each in a child.

Children run one after another, each over a channel with a key of its own, so that nothing that one has said can be said again by
another. Files are put back as they were before the next child begins; after one that left a process, or did not read what it was
told, none begins any more. All tests that are not said to have passed here are run again alone.
"""

from __future__ import annotations

import fcntl
import os

from children import OF_PARENT
from scratch import kept, restore
from sealed_channel import NOISE, TO_PROGRAM, TO_SUPERVISOR, fields, framed, opener, sealer, unpacked, with_ends_kept, write_all

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FIONREAD = 0x541B
"""The request that counts a pipe's unread bytes; importing termios for it would cost each run its time."""
_KEY_BYTES, _LONGEST_DETAIL = 16, 1 << 14


def conversation_with_children(
    answers: int, key: bytes, groups: list[bytes], tell: Callable[..., None], cpu_s: float, ways: dict[str, Callable[..., Any]]
) -> tuple[Callable[[bytes], None], dict[str, Any]]:
    """A listener, and what it knows, as `conversation` gives them, how to `end` too; a forgery in one child ends all.

    The last tests need no child: they run in the process that has run the code.

    Args:
        groups: of each instruction the tests, as `conversation` takes them.
        ways: `converse` and `judge`, for each child.
    """
    unseal = opener(key, TO_SUPERVISOR)
    state: dict[str, Any] = {"seal": sealer(key, TO_PROGRAM), "unread": b"", "done": False, "failure": None}
    child: dict[str, Any] = {}
    waiting, spent, files = [*range(len(groups))][::-1], list[float](), {}

    def take(message: bytes) -> None:
        if not child:
            take_of_code(unpacked(unseal(message) or b""))
            return
        said = opener(child["key"], OF_PARENT)(message)
        if said is None:
            child["hear"](len(message).to_bytes(8, "big") + message)
            if child["state"]["failure"] is not None and child["state"]["failure"][0] == b"tampering":
                state["failure"] = child["state"]["failure"]
        else:
            code, before_s, own_s, n_left = unpacked(said)
            spent.append(float(own_s))
            end_child(int(code), float(before_s) + float(own_s), bool(int(n_left)))

    def take_of_code(said: list[bytes]) -> None:
        kind = said[0] if said else b""
        if kind == b"code failed":
            state["failure"] = (b"failed", said[1])
            if len(said) > 2:
                tell(b"compile", b"failed", with_ends_kept(said[2], _LONGEST_DETAIL))
        elif kind == b"code ran":
            found = None if said[1] else left_by_code()
            if found is None:
                stop(said[1] or b"the code left more than files, or too many")
            else:
                files.update(found)
                begin()
        else:
            state["failure"] = NOISE

    def left_by_code() -> dict[str, Any] | None:
        try:
            return kept()
        except OSError:
            return None

    def begin() -> None:
        own = os.urandom(_KEY_BYTES)
        n, told = waiting.pop(), list[bytes]()
        hear, its_state = ways["converse"](answers, own, unpacked(groups[n]), lambda label, word, *_: told.append(word))
        child.update(key=own, hear=hear, state=its_state, told=told, name=f"child {n}".encode())
        write_all(answers, state["seal"](fields(b"child" if waiting else b"last", own)))

    def end_child(code: int, used_s: float, has_left_others: bool) -> None:
        if child["state"]["unread"] or fcntl.ioctl(answers, _FIONREAD, bytes(4)) != bytes(4):
            state["failure"] = NOISE
            return
        tell_of_child(code, used_s, lambda: has_left_others)
        if has_left_others or not is_restored():
            stop(b"an instruction's tests left what the next would find")
        else:
            begin()

    def tell_of_child(code: int, used_s: float, has_left_others: Callable[[], bool]) -> tuple[bytes, bytes]:
        outcome, detail = ways["judge"](code, used_s, cpu_s, child["state"], has_left_others)
        if outcome == b"passed":
            if used_s < cpu_s:
                tell(child["name"] + b" units", outcome, b"".join(word[:1] for word in child["told"]))
            if used_s >= cpu_s or {*child["told"]} != {b"passed"}:
                outcome, detail = b"failed", b"needs a run of its own"
        tell(child["name"], outcome, detail)
        return outcome, detail

    def end(code: int, used_s: float, has_left_others: Callable[[], bool]) -> tuple[bytes, bytes]:
        if state["failure"] is None and child and not waiting:
            return tell_of_child(code, used_s - sum(spent), has_left_others)
        return ways["judge"](code, used_s, cpu_s, state, has_left_others)

    def is_restored() -> bool:
        try:
            restore(files)
        except OSError:
            return False
        return True

    def stop(why: bytes) -> None:
        state["failure"] = (b"failed", why)
        write_all(answers, state["seal"](fields(b"end", b"")))

    state["end"] = end
    return framed(state, take), state

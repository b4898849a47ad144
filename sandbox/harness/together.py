"""Supervisor's part of a joint run, in which the tests of each instruction run in a forked child.

Each child starts from the state that the code left. Children run one after another, each with its
own key for the channel, so that no child can repeat a message of another child. Files are restored
before the next child begins. If a child left a process or a port in TIME_WAIT, or did not read all
messages, no further child begins. For each child the report has a record with its outcome, and a
record with one letter for each unit of its tests (passed or failed). If a child failed only because
of its tests, the report also has a record for each unit and a record of the child's end.

The files that a run may write are saved after the code. The module is trusted, and runs in the
supervisor, which no program of the run can access. It defines no class, for the reason in
`run_function_tests.py`.
"""

from __future__ import annotations

import fcntl
import os
import stat

from children import OF_PARENT
from sealed_channel import (
    NOISE,
    TO_PROGRAM,
    TO_SUPERVISOR,
    fields,
    framed,
    opener,
    sealer,
    unpacked,
    with_ends_kept,
    write_all,
)

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FIONREAD = 0x541B
"""Request of ioctl that returns the number of unread bytes in a pipe. The number is written out,
because importing termios would cost each run time.
"""
_KEY_BYTES, _LONGEST_DETAIL, _ALL_DETAILS = 16, 1 << 14, 150_000
_PLACES = (".", "/tmp", "/dev/shm")
_MOST_FILES, _MOST_BYTES = 200, 4 << 20


def conversation_with_children(
    answers: int,
    key: bytes,
    groups: list[bytes],
    tell: Callable[..., None],
    cpu_s: float,
    ways: dict[str, Callable[..., Any]],
) -> tuple[Callable[[bytes], None], dict[str, Any]]:
    """Make a function that handles the messages of a joint run, and its state. See `conversation`.

    The state's `end` returns the outcome of the run. A forgery in one child ends the whole run. The
    last group of tests needs no child: it runs in the process that has run the code.

    Args:
        answers: descriptor that the program reads.
        key: key of the channel.
        groups: tests of each instruction, in the form that `conversation` expects.
        tell: function that writes a record to the report.
        cpu_s: limit of CPU seconds.
        ways: the functions `converse` and `judge`, for each child.
    """
    unseal = opener(key, TO_SUPERVISOR)
    state: dict[str, Any] = {
        "seal": sealer(key, TO_PROGRAM),
        "unread": b"",
        "done": False,
        "failure": None,
    }
    child: dict[str, Any] = {}
    waiting, spent, files = [*range(len(groups))][::-1], list[float](), {}
    room = [_ALL_DETAILS]

    def take(message: bytes) -> None:
        if not child:
            take_of_code(unpacked(unseal(message) or b""))
            return
        parts = opener(child["key"], OF_PARENT)(message)
        if parts is None:
            child["hear"](len(message).to_bytes(8, "big") + message)
            if (
                child["state"]["failure"] is not None
                and child["state"]["failure"][0] == b"tampering"
            ):
                state["failure"] = child["state"]["failure"]
        else:
            code, before_s, own_s, n_left = unpacked(parts)
            spent.append(float(own_s))
            end_child(int(code), float(before_s) + float(own_s), bool(int(n_left)))

    def take_of_code(parts: list[bytes]) -> None:
        kind = parts[0] if parts else b""
        if kind == b"code failed":
            state["failure"] = (b"failed", parts[1])
            tell(b"raised", b"failed", b"")
            if len(parts) > 2:
                tell(b"compile", b"failed", with_ends_kept(parts[2], _LONGEST_DETAIL))
        elif kind == b"code ran":
            files_left = None if parts[1] else _left_by_code()
            if files_left is None:
                stop(parts[1] or b"the code left more than files, or too many")
            else:
                files.update(files_left)
                begin()
        else:
            state["failure"] = NOISE

    def begin() -> None:
        own = os.urandom(_KEY_BYTES)
        n, words = waiting.pop(), dict[bytes, tuple[bytes, bytes]]()
        units = unpacked(groups[n])
        hear, its_state = ways["converse"](
            answers, own, units, lambda label, *record: words.update({label: record})
        )
        child.update(
            key=own,
            hear=hear,
            state=its_state,
            words=words,
            n_units=len(units) // 2,
            name=f"child {n}".encode(),
        )
        write_all(answers, state["seal"](fields(b"child" if waiting else b"last", own)))

    def end_child(code: int, used_s: float, has_left_others: bool) -> None:
        is_torn = child["state"]["unread"] and child["state"]["failure"] is None
        if is_torn or fcntl.ioctl(answers, _FIONREAD, bytes(4)) != bytes(4):
            state["failure"] = NOISE
            return
        tell_of_child(code, used_s, lambda: has_left_others)
        if has_left_others or not _is_restored(files) or not _are_ports_free():
            stop(b"an instruction's tests left what the next would find")
        else:
            begin()

    def tell_of_child(
        code: int, used_s: float, has_left_others: Callable[[], bool]
    ) -> tuple[bytes, bytes]:
        outcome, detail = ways["judge"](code, used_s, cpu_s, child["state"], has_left_others)
        words = [
            child["words"].get(str(n).encode(), (b"failed", b""))[0]
            for n in range(child["n_units"])
        ]
        is_late = used_s >= cpu_s
        if child["state"]["n_told"] == len(words) and (outcome != b"passed" or is_late):
            # All tests finished, but the process did not end well. It is unknown which test is the
            # cause.
            words = [b"failed"] * len(words)
        if outcome != b"tampering":
            tell(child["name"] + b" units", outcome, b"".join(word[:1] for word in words))
        if (
            b"failed" in words
            and not is_late
            and (outcome == b"passed" or child["state"]["failure"] == (outcome, detail))
        ):
            tell_of_units(outcome, detail)
        if outcome == b"passed" and (is_late or {*words} != {b"passed"}):
            outcome, detail = b"failed", b"needs a run of its own"
        tell(child["name"], outcome, detail)
        return outcome, detail

    def tell_of_units(outcome: bytes, detail: bytes) -> None:
        """Report each unit and the end of the child, unless the report would become too long."""
        room[0] -= sum(len(unit_detail) for _, unit_detail in child["words"].values()) + len(detail)
        if outcome != b"tampering" and room[0] >= 0:
            for label, (word, unit_detail) in child["words"].items():
                tell(child["name"] + b" unit " + label, word, unit_detail)
            tell(child["name"] + b" end", outcome, detail)

    def end(code: int, used_s: float, has_left_others: Callable[[], bool]) -> tuple[bytes, bytes]:
        if state["failure"] is None and child and not waiting:
            return tell_of_child(code, used_s - sum(spent), has_left_others)
        return ways["judge"](code, used_s, cpu_s, state, has_left_others)

    def stop(why: bytes) -> None:
        state["failure"] = (b"failed", why)
        write_all(answers, state["seal"](fields(b"end", b"")))

    state["end"] = end
    return framed(state, take), state


def _left_by_code() -> dict[str, Any] | None:
    try:
        return _saved_entries()
    except OSError:
        return None


def _is_restored(files: dict[str, Any]) -> bool:
    try:
        _restore(files)
    except OSError:
        return False
    return True


def _are_ports_free() -> bool:
    """Return True if every port is as free as the code left it.

    A closed connection keeps its port for a minute.
    """
    try:
        return b" tw 0 " in _read("/proc/net/sockstat")
    except OSError:
        return False


def _saved_entries() -> dict[str, Any] | None:
    """Return each file and folder of this user by path, files with their content.

    Return None if they are too many or too large, or if there are links or other special entries.
    """
    entries: dict[str, Any] = {}
    n_bytes = 0
    for path, state in _entries():
        if stat.S_ISREG(state.st_mode) and state.st_nlink == 1:
            n_bytes += state.st_size
        elif not stat.S_ISDIR(state.st_mode) or state.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            return None
        if n_bytes > _MOST_BYTES or len(entries) == _MOST_FILES:
            return None
        entries[path] = (_looks(state), None if stat.S_ISDIR(state.st_mode) else _read(path))
    return entries


def _restore(before: dict[str, Any]) -> None:
    """Restore the saved files and folders.

    Raises:
        OSError: something cannot be restored.
    """
    entries = _entries()
    if {path: _looks(state) for path, state in entries} == {
        path: looks for path, (looks, _) in before.items()
    }:
        return
    # Reversed, because the content of a folder must be removed before the folder.
    for path, state in reversed(entries):
        looks, _ = before.get(path, (None, None))
        if looks is None or stat.S_IFMT(looks[0]) != stat.S_IFMT(state.st_mode):
            (os.rmdir if stat.S_ISDIR(state.st_mode) else os.unlink)(path)
    now = {path: _looks(state) for path, state in _entries()}
    for path, (looks, content) in before.items():
        if now.get(path) != looks:
            _write(path, looks, content)
            before[path] = (_looks(os.lstat(path)), content)


def _entries() -> list[tuple[str, os.stat_result]]:
    """Return all entries that this user made in the writable folders, a folder before its content.

    Inaccessible folders are made accessible first.
    """
    entries: list[tuple[str, os.stat_result]] = []
    for place in _PLACES:
        device, unseen = os.stat(place).st_dev, [place]
        for folder in unseen:
            for name in os.listdir(folder):
                path = f"{folder}/{name}"
                state = os.lstat(path)
                # Such an entry belongs to the sandbox, and is read-only.
                if state.st_dev != device or state.st_uid != os.getuid():
                    continue
                entries.append((path, state))
                if stat.S_ISDIR(state.st_mode):
                    if state.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                        os.chmod(path, stat.S_IRWXU)
                    unseen.append(path)
    return entries


def _looks(state: os.stat_result) -> tuple[int, ...]:
    if stat.S_ISDIR(state.st_mode):
        return (state.st_mode,)
    return state.st_mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def _read(path: str) -> bytes:
    descriptor, pieces = os.open(path, os.O_RDONLY | os.O_NOFOLLOW), b""
    try:
        while piece := os.read(descriptor, 1 << 20):
            pieces += piece
    finally:
        os.close(descriptor)
    return pieces


def _write(path: str, looks: tuple[int, ...], content: bytes | None) -> None:
    mode = stat.S_IMODE(looks[0])
    if content is None:
        if not os.path.isdir(path):
            os.mkdir(path)
        os.chmod(path, mode)
        return
    if os.path.lexists(path):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        while content:
            content = content[os.write(descriptor, content) :]
        os.fchmod(descriptor, mode)
        os.utime(descriptor, ns=(looks[2], looks[2]))
    finally:
        os.close(descriptor)

"""Candidate process, which runs a candidate's code, then the tests that the supervisor sends.

The tests run as in plain Python: with its own operators, built-ins, unittest and pytest, unchanged
and unobserved. The audit (`sandbox/decoys`) decides whether a pass was earned.
"""

from __future__ import annotations

import builtins
import os
import sys

from children import parent
from pytest_suite import run_pytest
from sealed_channel import (
    TO_PROGRAM,
    TO_SUPERVISOR,
    fields,
    opener,
    read_field,
    sealer,
    unpacked,
    with_ends_kept,
    write_all,
)
from suites import case_runner

__builtins__ = dict(builtins.__dict__)  # The candidate can change the shared built-ins.

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROGRAM, TESTS = "program.py", "<tests>"
COMPILED = "tmp.py"
LONGEST_DETAIL = 1 << 14
# A `from __future__` import in the code also applies to the tests, as in a single file.
_FUTURE_FLAGS = 0x1FE0000


def judge_program(answers: int, questions: int, key: bytes) -> None:
    """Run the code and all tests, then return.

    The interpreter then ends as any script's does (threads joined, atexit run).
    """
    exit_now, own, getpid = os._exit, [os.getpid()], os.getpid
    seal, unseal = sealer(key, TO_SUPERVISOR), opener(key, TO_PROGRAM)

    def say(*parts: bytes) -> None:
        write_all(questions, seal(fields(*parts)))

    def hear() -> list[bytes]:
        message = unseal(read_field(answers))
        if message is None:
            exit_now(1)
        return unpacked(message)

    def only_here() -> None:
        """End this process if the candidate forked it, so that it does not run further tests."""
        if getpid() != own[0]:
            exit_now(0)

    def talk_by(key: bytes) -> None:
        nonlocal seal, unseal
        seal, unseal, own[0] = sealer(key, TO_SUPERVISOR), opener(key, TO_PROGRAM), getpid()

    job = {name.decode(): value for name, value in zip(*[iter(hear())] * 2)}  # noqa: B905 - see `conversation`
    _install_packages(job["folders"].decode())
    if job["kind"] == b"pytest":
        run_pytest(job, say, hear, only_here)
        return
    path, refused = f"{os.getcwd()}/{PROGRAM}", []
    try:
        names, fork_each, alone = _run_code(job, path, questions, refused)
        only_here()
    except BaseException as error:  # noqa: BLE001 - every way a program can end
        only_here()
        say(b"code failed", described(error, path), *refused)
        exit_now(1)
    if fork_each is not None:
        say(b"code ran", alone.encode())
        talk_by(fork_each(hear))
    say(b"code ran")
    run_one = _unit_runner(names, is_unittest=job["kind"] == b"unittest")
    while True:
        kind, text = hear()
        if kind == b"end":
            break
        try:
            failure = run_one(kind, text)
        except BaseException as error:  # noqa: BLE001 - whatever a test raises, it has failed
            failure = described(error, path)
        only_here()
        say(b"passed" if failure is None else b"failed", _without_folder(failure or b"", path))
    say(b"done")


def _run_code(
    job: dict[str, bytes], path: str, questions: int, refused: list[bytes]
) -> tuple[Any, Callable[..., bytes] | None, str]:
    """Run the candidate's code as a script of its own file.

    Args:
        job: the supervisor's job.
        path: path of the script.
        questions: descriptor that the supervisor reads.
        refused: list that receives the compiler's message if the code does not compile.

    Returns:
        The module's names with the code's flags; the function that forks a child for each
        instruction's tests, or None if they run in this process; and the reason why the tests
        cannot run in children.
    """
    with open(path, "wb") as file:
        file.write(job["code"])
    names = _main_module(job["main"].decode(), path)
    sys.path.insert(0, os.getcwd())
    # The script gets the usual depth, although calls of the harness precede it on the stack.
    sys.setrecursionlimit(sys.getrecursionlimit() + 5)
    why_alone, fork_each = parent(questions) if "together" in job else (None, None)
    try:
        code = compile(job["code"], path, "exec", dont_inherit=True, optimize=0)
    except BaseException as error:
        refused.append(_compiler_message(error))
        raise
    exec(code, names)
    return (
        (names, code.co_flags & _FUTURE_FLAGS),
        fork_each,
        why_alone() if why_alone is not None else "",
    )


def _unit_runner(
    module: tuple[dict[str, Any], int], *, is_unittest: bool
) -> Callable[[bytes, bytes], bytes | None]:
    """Make a function that runs one unit of the tests.

    The function returns None for a pass, else the failure's text.
    """
    names, flags = module

    def run_statements(kind: bytes, text: bytes) -> None:
        exec(compile(text, TESTS, "exec", flags, True, 0), names)

    return case_runner(names, run_statements) if is_unittest else run_statements


def _main_module(name: str, path: str) -> dict[str, Any]:
    main = type(sys)(name)
    main.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules[name] = sys.modules["__main__"] = main
    sys.argv = [path]
    return main.__dict__


def described(error: BaseException, path: str) -> bytes:
    """Return an exception's text for the verdict: only lines of the candidate and of the tests."""
    try:
        import traceback

        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename not in (path, TESTS):
            trace = trace.tb_next
        lines = "".join(traceback.format_exception(type(error), error, trace))
        if isinstance(error, SystemExit):
            lines += "the program asked to exit before its tests were through\n"
    except BaseException:  # noqa: BLE001 - an exception that cannot be shown
        lines = f"{type(error).__name__} (its text cannot be shown)"
    return _without_folder(lines.encode("utf-8", "backslashreplace"), path)


def _compiler_message(error: BaseException) -> bytes:
    """Return the traceback of `compile(code, COMPILED, "exec")` as the interpreter prints it."""
    import traceback

    name = getattr(error, "filename", None)
    if name is not None:
        error.filename = COMPILED  # pyright: ignore[reportAttributeAccessIssue]  (it has one, as just seen)
    lines = "Traceback (most recent call last):\n" + "".join(traceback.format_exception_only(error))
    if name is not None:
        error.filename = name  # pyright: ignore[reportAttributeAccessIssue]  (as above)
    return with_ends_kept(lines.encode("utf-8", "backslashreplace"), LONGEST_DETAIL)


def _without_folder(detail: bytes, path: str) -> bytes:
    """Remove the working directory's name, which sandboxes choose, from a failure's text."""
    return with_ends_kept(
        detail.replace(path.encode("utf-8", "surrogateescape")[: -len(PROGRAM)], b""),
        LONGEST_DETAIL,
    )


def _install_packages(folders: str) -> None:
    """Do the work of the `site` module, but ignore .pth files, which run code at each start."""
    there = [folder for folder in folders.split("\n") if os.path.isdir(folder)]
    if there and hasattr(builtins, "help"):  # The zygote has added the built-ins of `site`.
        sys.path.extend(there)
        return
    import site

    if not there:
        site.main()
        return
    sys.path.extend(there)
    site.setquit()
    site.setcopyright()
    site.sethelper()

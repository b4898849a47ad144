"""Runs a candidate's code, then the tests that the supervisor hands over one by one.

The supervisor is told how each went, and of tampering at once. A program that studies this file can imitate parts of it from
inside: sandbox/README.md names the limits.
"""

from __future__ import annotations

import builtins
import os
import sys

from children import parent
from comparison import comparing
from instrumentation import ast, bound, instrumented, leniency, nodes_of, own_finder, root_of
from integrity import guard
from pytest_suite import run_pytest
from sealed_channel import TO_PROGRAM, TO_SUPERVISOR, fields, opener, read_field, sealer, unpacked, with_ends_kept, write_all
from suites import case_runner
from watch import start_watch

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

PROGRAM, TESTS = "program.py", "<tests>"
COMPILED = "tmp.py"
LONGEST_DETAIL = 1 << 14
_FUTURE_FLAGS = 0x1FE0000  # `from __future__` of the code holds for the tests, as in one file


def judge_program(answers: int, questions: int, key: bytes) -> None:
    """Run the code and all tests, then return: the interpreter ends as any script's does (threads joined, atexit run)."""
    exit_now, own, getpid, run = os._exit, [os.getpid()], os.getpid, exec
    seal, unseal = sealer(key, TO_SUPERVISOR), opener(key, TO_PROGRAM)

    def say(*parts: bytes) -> None:
        write_all(questions, seal(fields(*parts)))

    def hear() -> list[bytes]:
        message = unseal(read_field(answers))
        if message is None:
            exit_now(1)
        return unpacked(message)

    def accuse(reason: str) -> NoReturn:
        try:
            say(b"tampering", reason.encode("utf-8", "backslashreplace")[:1000])
        finally:
            exit_now(1)

    def only_here() -> None:
        if getpid() != own[0]:
            exit_now(0)

    def talk_by(key: bytes) -> None:
        nonlocal seal, unseal
        seal, unseal, own[0] = sealer(key, TO_SUPERVISOR), opener(key, TO_PROGRAM), getpid()

    job = {name.decode(): value for name, value in zip(*[iter(hear())] * 2)}  # noqa: B905 - see `conversation`
    _install_packages(job["folders"].decode(), with_pth_files=job["kind"] == b"repository")
    trusted = (os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__)), *_outside(sys.path, os.getcwd()))
    if job["kind"] in (b"pytest", b"repository"):
        run_pytest(job, trusted, say, hear, accuse, only_here)
        return
    code, path = job["code"], f"{os.getcwd()}/{PROGRAM}"
    names, refused, loaded = _main_module(job["main"].decode(), path), [], set(sys.modules)
    why_alone, fork_each, alone = None, None, ""
    try:
        _write(path, code)
        imports = tuple(job["imports"].decode().split())
        checks = guard(accuse, imports, TESTS, names, mocks=job["mocks"] == b"1")
        is_own_process, entered, is_known = start_watch(accuse, trusted, (TESTS,), names, own)

        def here() -> None:
            is_own_process()
            checks["verify_cases"]()

        mock, pytest = (checks["modules"].get(name) for name in ("unittest.mock", "pytest"))
        lenient = leniency(TESTS, getattr(mock, "ANY", None), getattr(pytest, "approx", None), is_known)
        run_statements, verify_defined = _statement_runner(names, comparing(accuse, here, entered, lenient), checks, only_here)
        run_case = case_runner(names, run_statements, checks) if job["kind"] == b"unittest" else None
        sys.path.insert(0, os.getcwd())
        sys.setrecursionlimit(sys.getrecursionlimit() + 2)  # the frames between the interpreter and a script's first
        if "together" in job:
            why_alone, fork_each = parent(loaded, job["together"] == b"alike", questions)
        try:
            compiled = compile(code, path, "exec", dont_inherit=True, optimize=0)
        except BaseException as error:
            refused = [_as_compiled(error)]
            raise
        run(compiled, names)
        only_here()
        checks["verify"]()
        checks["verify_modules"](False)
        _write(path, code)
        alone = why_alone(compiled) if why_alone is not None else ""
        checks["restore_imports"]()
    except BaseException as error:  # noqa: BLE001 - every way a program can end
        only_here()
        say(b"code failed", described(error, path), *refused)
        exit_now(1)
    if fork_each is not None:
        say(b"code ran", alone.encode())
        talk_by(fork_each(hear))
    say(b"code ran")
    while True:
        kind, text = hear()
        if kind == b"end":
            break
        try:
            if run_case is not None:
                failure = run_case(kind, text, compiled.co_flags & _FUTURE_FLAGS)
            else:
                failure = None
                run_statements(text, compiled.co_flags & _FUTURE_FLAGS)
        except BaseException as error:  # noqa: BLE001 - whatever a test raises, it has failed
            failure = described(error, path)
        only_here()
        checks["verify"]()
        checks["verify_modules"](True)
        verify_defined()
        say(b"passed" if failure is None else b"failed", _told(failure or b"", path))
    say(b"done")


def _outside(folders: list[str], tree: str) -> list[str]:
    """Leave out what is the working folder's own. Attack: a project whose `src` a .pth file of its environment names."""
    return [folder for folder in folders if not f"{os.path.realpath(folder)}/".startswith(f"{os.path.realpath(tree)}/")]


def _write(path: str, code: bytes) -> None:
    """Write the code's own file, and again once it has run. Attack: its own source file, which tests judge for style."""
    with open(path, "wb") as file:
        file.write(code)


def _main_module(name: str, path: str) -> dict[str, Any]:
    main = type(sys)(name)
    main.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules[name] = sys.modules["__main__"] = main
    sys.argv = [path]
    return main.__dict__


def _statement_runner(
    names: dict[str, Any], compare: dict[str, Any], checks: dict[str, Any], only_here: Callable[[], None]
) -> tuple[Callable[[bytes, int], None], Callable[[], None]]:
    """Make a function that runs statements one by one, and one that looks whether their functions and classes
    are still theirs. Attack: a helper of the tests, replaced by name."""
    parse, run, defined, rebinding = compile, exec, {}, set[str]()
    with_own = own_finder()

    def run_statements(text: bytes, flags: int) -> None:
        for statement in parse(text, TESTS, "exec", flags | ast.PyCF_ONLY_AST, True, 0).body:
            made, rebound = _made_by(statement), _stored_in(statement)
            declared = {name for node in nodes_of(statement) if isinstance(node, ast.Global) for name in node.names}
            checks["add_names"](*_named_in(statement))
            tree = ast.Module([instrumented(with_own(statement))], [])
            one = bound(parse(tree, TESTS, "exec", flags, True, 0), compare)
            run(one, names)
            only_here()
            checks["verify"]()
            for name in (*rebound, *declared):
                defined.pop(name, None)
            rebinding.update(declared)
            defined.update({name: names[name] for name in made if name in names and name not in rebinding})
            if type(statement) is ast.ClassDef:
                checks["add_classes"]([names[name] for name in made if issubclass(type(names.get(name)), type)])
            verify_defined()

    def verify_defined() -> None:
        """Accuse where a function, class or import of the tests is another one now."""
        for name, value in defined.items():
            if names.get(name) is not value:
                checks["accuse"](f"replaced {name}, which its tests define")

    return run_statements, verify_defined


def _made_by(statement: Any) -> tuple[str, ...]:
    """List the names that a statement defines for good: functions, classes, imports."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return (statement.name,)
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return tuple(item.asname or item.name.partition(".")[0] for item in statement.names)
    return ()


def _stored_in(tree: Any) -> set[str]:
    """List the names that a statement may bind anew."""
    return {node.id for node in nodes_of(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _named_in(tree: Any) -> tuple[set[str], set[str], set[str]]:
    """List the attributes that a statement reads, the names that it may give values by (attributes, keywords, the last parts of
    texts), and the attributes that it assigns to others than `self`."""
    read, given, stored = set[str](), set[str](), set[str]()
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute):
            (given if isinstance(node.ctx, ast.Store) else read).add(node.attr)
            if isinstance(node.ctx, ast.Store) and root_of(node) not in (None, "self", "cls"):
                stored.add(node.attr)
        elif isinstance(node, ast.keyword):
            given.add(node.arg or "")
        elif isinstance(node, ast.Constant) and type(node.value) is str:
            given.add(node.value.rpartition(".")[2])
    return read, given, stored


def described(error: BaseException, path: str) -> bytes:
    """Show an exception as the verdict's detail: the candidate's and the tests' own lines only."""
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
    return _told(lines.encode("utf-8", "backslashreplace"), path)


def _as_compiled(error: BaseException) -> bytes:
    """Show the traceback of `compile(code, COMPILED, "exec")` as the interpreter prints it."""
    import traceback

    name = getattr(error, "filename", None)
    if name is not None:
        error.filename = COMPILED  # pyright: ignore[reportAttributeAccessIssue]  (it has one, as just seen)
    lines = "Traceback (most recent call last):\n" + "".join(traceback.format_exception_only(error))
    if name is not None:
        error.filename = name  # pyright: ignore[reportAttributeAccessIssue]  (as above)
    return with_ends_kept(lines.encode("utf-8", "backslashreplace"), LONGEST_DETAIL)


def _told(detail: bytes, path: str) -> bytes:
    """Take the working directory's name, which differs from place to place, out of a failure's text."""
    return with_ends_kept(detail.replace(path.encode("utf-8", "surrogateescape")[: -len(PROGRAM)], b""), LONGEST_DETAIL)


def _install_packages(folders: str, *, with_pth_files: bool) -> None:
    """Do the work of the `site` module. Its .pth files run code at each start: only a dataset's environment, whose they are, has
    them read.

    Args:
        folders: of packages; where a dataset's environment names none, those of the Python that runs.
    """
    import site

    named = folders.split("\n") if folders or not with_pth_files else site.getsitepackages()
    there = [folder for folder in named if os.path.isdir(folder)]
    if not there and not with_pth_files:
        site.main()
        return
    add = site.addsitedir if with_pth_files else sys.path.append
    for folder in there:
        add(folder)
    site.setquit()
    site.setcopyright()
    site.sethelper()

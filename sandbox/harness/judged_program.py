"""The process that runs a candidate's code and tests, and the check that what decides a test is still what it was.

A program that studies this file can imitate its second half from inside; sandbox/README.md names this limit.
"""

from __future__ import annotations

import _ast
import builtins
import os
import site
import sys

from watch import Watch

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


PROGRAM, TESTS = "program.py", "<tests>"
LONGEST_MESSAGE = 1 << 16
_FUTURE_FLAGS = 0x1FE0000  # `from __future__` of the code holds for the tests, as in one file
_MAY_BE_REPLACED = {"print", "input", "open", "exit", "quit", "help", "copyright", "credits", "license", "_"}
_MAY_NOT_BE_SHADOWED = ("isinstance", "issubclass", "callable", "hasattr", "getattr", "AssertionError")
_JUDGING_MODULES = ("inspect", "linecache", "tokenize", "ast", "dis", "pycodestyle", "mccabe", "radon", "unittest", "doctest")


class Tampering(Exception):
    pass


def read_exactly(descriptor: int, size: int) -> bytes:
    """`size` bytes from a descriptor. Raises EOFError where it ends before."""
    data = b""
    while len(data) < size:
        piece = os.read(descriptor, min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return data


def read_field(descriptor: int) -> bytes:
    """One field: eight bytes of length, then its bytes."""
    return read_exactly(descriptor, int.from_bytes(read_exactly(descriptor, 8), "big"))


def write_all(descriptor: int, data: bytes, write: Callable[[int, bytes], int] = os.write) -> None:
    """Write all of it, however many calls that takes."""
    while data:
        data = data[write(descriptor, data) :]


def as_field(data: bytes) -> bytes:
    """A field as `read_field` reads it."""
    return len(data).to_bytes(8, "big") + data


class Judges:
    """What decides tests, as it was before the candidate ran."""

    def __init__(self) -> None:
        self.builtins = dict(builtins.__dict__)
        self.meta_path, self.path_hooks, self.path = list(sys.meta_path), list(sys.path_hooks), list(sys.path)
        self.classes = {id(c) for c in all_classes()}
        self.canary = compile("assert 0 == 1", TESTS, "exec", dont_inherit=True, optimize=0)

    def restore_imports(self) -> None:
        """Modules that tests judge by are loaded afresh, and from where they were before: a patched copy judges nothing."""
        for name in list(sys.modules):
            if name.partition(".")[0] in _JUDGING_MODULES:
                del sys.modules[name]
        put_first(self.meta_path, sys.meta_path)
        put_first(self.path_hooks, sys.path_hooks)
        put_first(self.path, sys.path)
        sys.path_importer_cache.clear()

    def verify(self, names: dict[str, Any]) -> None:
        """Raises Tampering where the candidate changed what decides a test."""
        changed = [n for n, v in self.builtins.items() if builtins.__dict__.get(n) is not v and n not in _MAY_BE_REPLACED]
        builtins.__dict__.update(self.builtins)
        if changed:
            raise Tampering(f"replaced the built-in {sorted(changed)[0]}")
        if names.get("__builtins__") is not builtins:
            raise Tampering("replaced __builtins__")
        for name in _MAY_NOT_BE_SHADOWED:
            if name in names and names[name] is not self.builtins[name]:
                raise Tampering(f"replaced {name}")
        if sys.gettrace() is not None or sys.getprofile() is not None:
            raise Tampering("traces its tests")
        try:
            exec(self.canary, names)
        except AssertionError:
            return
        raise Tampering("a false assertion passes")

    def verify_equality(self) -> None:
        """Raises Tampering where a new class claims to equal an object it has never seen."""
        trusted = (sys.base_prefix, *self.path, "<frozen")
        for cls in all_classes():
            equal = type.__getattribute__(cls, "__dict__").get("__eq__")
            source = getattr(getattr(equal, "__code__", None), "co_filename", None)
            if id(cls) in self.classes or source is None or source.startswith(trusted):
                continue
            if claims_equality(cls, equal):
                raise Tampering(f"objects of class {cls.__name__} claim to equal everything")


def put_first(before: list[Any], now: list[Any]) -> None:
    """Put what a list held before in front again, keeping what was added."""
    now[:] = before + [item for item in now if item not in before]


def all_classes() -> list[type]:
    """Every class of the process, by walking down from object."""
    found: list[type] = []
    unseen: list[type] = [object]
    ids: set[int] = set()
    while unseen:
        for cls in type.__subclasses__(unseen.pop()):
            if id(cls) not in ids:
                ids.add(id(cls))
                found.append(cls)
                unseen.append(cls)
    return found


def claims_equality(cls: type, equal: Callable[[object, object], object]) -> bool:
    """Whether instances of a class say that they equal an object that nobody has ever seen."""

    class Stranger:
        pass

    try:
        probe = cls.__new__(cls)  # pyright: ignore[reportCallIssue]
    except BaseException:  # noqa: BLE001 - whatever the candidate raises
        probe = Stranger()
    try:
        claim = equal(probe, Stranger())
        return claim is not NotImplemented and bool(claim)
    except BaseException:  # noqa: BLE001
        return False


def run_program(
    answers: int,
    questions: int,
    key: bytes,
    _exit: Callable[[int], NoReturn] = os._exit,
    _getpid: Callable[[], int] = os.getpid,
    _exec: Callable[..., None] = exec,
    _compile: Callable[..., Any] = compile,
) -> None:
    """Returns only after a pass, so that the interpreter ends as any script's does (threads joined, atexit run)."""
    install_packages(read_field(answers).decode())
    code, own_pid = read_field(answers), _getpid()
    path = f"{os.getcwd()}/{PROGRAM}"
    main = type(sys)("__main__")
    names = main.__dict__
    names.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"], sys.argv = main, [path]
    tests = b""
    try:
        with open(path, "wb") as file:
            file.write(code)
        judges = Judges()
        watch = Watch((os.path.dirname(os.__file__), *judges.path), TESTS)
        sys.path.insert(0, os.getcwd())
        sys.setrecursionlimit(sys.getrecursionlimit() + 2)  # the frames between the interpreter and a script's first
        compiled = _compile(code, path, "exec", dont_inherit=True, optimize=0)
        _exec(compiled, names)
        if _getpid() != own_pid:
            _exit(0)
        judges.verify(names)
        verify_source(path, code)
        judges.restore_imports()
        write_all(questions, b"T" + as_field(key))
        run_id, tests = read_field(answers), read_field(answers)
        flags = (compiled.co_flags & _FUTURE_FLAGS) | _ast.PyCF_ONLY_AST
        for statement in _compile(tests, TESTS, "exec", flags, True, 0).body:
            one = _compile(_ast.Module([statement], []), TESTS, "exec", flags & _FUTURE_FLAGS, True, 0)
            _exec(one, names)
            if _getpid() != own_pid:
                _exit(0)
            if sys.gettrace() is not None:
                raise Tampering("traces its tests")
        judges.verify(names)
        judges.verify_equality()
        if watch.findings:
            raise Tampering(watch.findings[0])
        write_all(questions, b"D" + as_field(key + run_id))
    except BaseException as error:  # noqa: BLE001 - every way a program can end
        if _getpid() == own_pid:
            write_all(questions, b"F" + as_field(described(error, path, tests)))
        _exit(1)


def install_packages(folders: str) -> None:
    """The work of the `site` module without reading .pth files, which run code at each start."""
    there = [folder for folder in folders.split("\n") if os.path.isdir(folder)]
    if not there:
        site.main()
        return
    sys.path.extend(there)
    site.setquit()
    site.setcopyright()
    site.sethelper()


def verify_source(path: str, code: bytes) -> None:
    """Source text is judged too (style, complexity): it must still be the candidate's own."""
    with open(path, "rb") as file:
        if file.read() != code:
            raise Tampering("changed its own source file")


def described(error: BaseException, path: str, tests: bytes) -> bytes:
    """An exception as the verdict's detail: the candidate's and the tests' own lines only."""
    if isinstance(error, Tampering):
        return f"tampering: {error}".encode()
    try:
        import linecache
        import traceback

        text = tests.decode("utf-8", "replace")
        linecache.cache[TESTS] = (len(text), None, text.splitlines(keepends=True), TESTS)
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename not in (path, TESTS):
            trace = trace.tb_next
        lines = "".join(traceback.format_exception(type(error), error, trace))
        if isinstance(error, SystemExit):
            lines += "the program asked to exit before its tests were through\n"
    except BaseException:  # noqa: BLE001 - an exception that cannot be shown
        lines = f"{type(error).__name__} (its text cannot be shown)"
    lines = lines.replace(f"{os.path.dirname(path)}/", "")
    return lines.encode("utf-8", "backslashreplace")[-LONGEST_MESSAGE // 4 :]

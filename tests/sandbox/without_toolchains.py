"""The default sandbox of a machine on which neither node nor a JDK is installed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sandbox.backends.zygote.backend import ZygoteSandbox
from sandbox.interface import Completed, Session
from schemas.run import Limits

HIDDEN = ("node", "javac", "java")


class WithoutToolchains:
    """A zygote in which those names find nothing."""

    name = "bare"
    isolated = has_host_packages = True

    def __init__(self) -> None:
        self._real = ZygoteSandbox()

    def check(self) -> None:
        self._real.check()

    def fingerprint(self) -> str:
        return f"bare; {self._real.fingerprint()}"

    @contextmanager
    def session(self, limits: Limits, *, keep_files: bool = False) -> Iterator[Session]:
        with self._real.session(limits, keep_files=keep_files) as session:
            yield _Session(session)


class _Session:
    def __init__(self, real: Session) -> None:
        self._real = real

    def run(
        self,
        argv: tuple[str, ...],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> Completed:
        """See `sandbox.interface.Session`."""
        hidden = tuple(f"/nowhere/{item}" if item in HIDDEN else item for item in argv)
        return self._real.run(hidden, files=files, stdin=stdin, limits=limits)

"""Every error Parley raises on purpose.

    ParleyError
    ├── UsageError                exit 2: the request cannot be understood, or names something that is not there
    │   ├── UnknownName           no benchmark, setting, model, sandbox, option, run or episode has this name
    │   ├── ConfigError           a configuration file or option value that does not validate
    │   ├── SourceUnreadable      nothing of the benchmark's data can be read
    │   └── SchemaMismatch        a Parquet file written by another schema version
    ├── InfraError                a fault of machine or service, never of the model under test
    │   ├── SandboxUnavailable    the sandbox itself could not run a program
    │   │   └── HostShortage      the machine, not the program, lacked memory or time; alone, the program may run
    │   ├── ModelUnavailable      an endpoint did not give an answer
    │   └── ServerUnavailable     a Prefect server or Dask cluster did not start or answer
    ├── Unscorable                what a program needs is not there: a toolchain, a tree; no fault, and no verdict
    ├── NightVoid                 exit 3: the sandbox passed a known cheat, or failed a known good program
    ├── BudgetSpent               exit 4: a cap of the invocation's budget is met; nothing more is asked for
    ├── DiskFull                  no room on the disk; with room, the same command goes on where it stopped
    ├── CorruptRows               rows of the lake that no version of Parley would have written
    └── AnswerMissing             a recording holds no answer for this turn: an error of that episode

A message names the value, the place and the remedy. `str(error)` is what the command line prints.
"""

from collections.abc import Iterable


class ParleyError(Exception):
    """Base of all; `exit_code` is the exit status of a command that it ends."""

    exit_code = 1


class UsageError(ParleyError):
    exit_code = 2


class UnknownName(UsageError):
    """No `kind` has the name `value`; lists the known names."""

    def __init__(self, kind: str, value: str, known: Iterable[str] = (), remedy: str = "") -> None:
        self.kind, self.value, self.known, self.remedy = kind, value, tuple(known), remedy
        listed = f"; known: {', '.join(self.known)}" if self.known else ""
        super().__init__(f"unknown {kind} {value!r}{listed}{'. ' + remedy if remedy else ''}")

    def __reduce__(self) -> tuple[type, tuple[str, str, tuple[str, ...], str]]:
        return type(self), (self.kind, self.value, self.known, self.remedy)


class ConfigError(UsageError):
    pass


class SourceUnreadable(UsageError):
    pass


class SchemaMismatch(UsageError):
    pass


class InfraError(ParleyError):
    pass


class SandboxUnavailable(InfraError):
    pass


class HostShortage(SandboxUnavailable):
    pass


class Unscorable(ParleyError):
    """A program cannot be judged here, now or ever; `reason` is the verdict's."""

    def __init__(self, message: str, reason: str = "toolchain_missing") -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.reason)


class ModelUnavailable(InfraError):
    """An endpoint gave no usable answer after all retries.

    `permanent` is true where asking again cannot help (wrong key, unknown model, no such path).
    `n_calls` is the number of requests that were sent for it, 0 and up: the endpoint may have charged for them.
    """

    def __init__(self, message: str, *, permanent: bool = False, n_calls: int = 0) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.n_calls = n_calls


class ServerUnavailable(InfraError):
    pass


class RunsFailed(ParleyError):
    """Some runs of the night failed; the others are published, and all are reported."""


class NightVoid(ParleyError):
    exit_code = 3


class BudgetSpent(ParleyError):
    exit_code = 4


class DiskFull(ParleyError):
    pass


class CorruptRows(ParleyError):
    pass


class AnswerMissing(ParleyError):
    pass

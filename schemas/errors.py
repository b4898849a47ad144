"""Every error Parley raises on purpose.

    ParleyError
    ├── UsageError                exit 2: the request cannot be understood, or names something that is not there
    │   ├── UnknownName           no benchmark, setting, model, sandbox, option, run or episode has this name
    │   ├── ConfigError           a configuration file or option value that does not validate
    │   ├── SourceUnreadable      nothing of the benchmark's data can be read
    │   └── SchemaMismatch        a Parquet file written by another schema version
    ├── InfraError                a fault of machine or service, never of the model under test
    │   ├── SandboxUnavailable    the sandbox itself could not run a program
    │   │   ├── HostShortage      the machine, not the program, lacked memory or time; alone, the program may run
    │   │   └── ImageFault        the Docker image of one instance cannot be had, or not be used
    │   ├── ModelUnavailable      an endpoint did not give an answer
    │   ├── ServerUnavailable     a Prefect server or Dask cluster did not start or answer
    │   └── DataUnavailable       no source of a public dataset gave its files
    ├── Unscorable                what a program needs is not there: a toolchain, a tree; no fault, and no verdict
    ├── NightVoid                 exit 3: the sandbox passed a known cheat, or failed a known good program
    ├── BudgetSpent               exit 4: a cap of the invocation's budget is met; nothing more is asked for
    ├── DiskFull                  no room on the disk; with room, the same command goes on where it stopped
    ├── CorruptRows               rows of the lake that no version of Parley would have written
    └── AnswerMissing             a recording holds no answer for this turn: an error of that episode

A message names the value, the place and the remedy. `str(error)` is what the command line prints.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a person may have meant, whatever its case; None where none is like it."""
    written: dict[str, str] = {}
    for one in known:
        written.setdefault(one.rpartition("/")[2].lower().replace("-", "_"), one)
    near = get_close_matches(name.rpartition("/")[2].lower().replace("-", "_"), written, n=1)
    return written[near[0]] if near else None


class ParleyError(Exception):
    """Base of all; `exit_code` is the exit status of a command that it ends."""

    exit_code = 1


class UsageError(ParleyError):
    """The request cannot be understood, or names something that is not there: the person who typed it has to change it."""

    exit_code = 2


class UnknownName(UsageError):
    """No `kind` has the name `value`; lists the known names. `of` is the thing that has the kind, such as an option's setting."""

    def __init__(
        self, kind: str, value: str, known: Iterable[str] = (), remedy: str = "", of: str = ""
    ) -> None:
        self.kind, self.value, self.known, self.remedy, self.of = (
            kind,
            value,
            tuple(known),
            remedy,
            of,
        )
        named = f"{kind} {value!r}{' of ' + of if of else ''}"
        listed = f"; known: {', '.join(self.known)}" if self.known else ""
        near = near_name(value, self.known)
        said = f"unknown {named}{listed}{f'. Do you mean {near}?' if near else ''}"
        super().__init__(f"{said}{' ' if near else '. '}{remedy}" if remedy else said)

    def __reduce__(self) -> tuple[type, tuple[str, str, tuple[str, ...], str, str]]:
        return type(self), (self.kind, self.value, self.known, self.remedy, self.of)


class ConfigError(UsageError):
    """A value of a configuration file or an option does not validate."""


class SourceUnreadable(UsageError):
    """Nothing of a benchmark's raw data can be read; single bad rows go to quarantine instead."""


class SchemaMismatch(UsageError):
    """A Parquet file was written by another version of its table's schema; `parley publish --migrate` may update it."""


class InfraError(ParleyError):
    """A fault of machine or service, never of the model under test: the same work is owed again."""


class SandboxUnavailable(InfraError):
    """The sandbox itself could not run a program, so there is no verdict."""


class HostShortage(SandboxUnavailable):
    """The machine lacked memory, processes or time for a program; with the machine to itself, the program may run."""


class Unscorable(ParleyError):
    """A program cannot be judged here, now or ever; `reason` is the verdict's."""

    def __init__(self, message: str, reason: str = "toolchain_missing") -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.reason)


class ImageFault(SandboxUnavailable):
    """The Docker image of one instance cannot be pulled or used. The message begins with the reason (`image_missing`).

    `permanent` is true where trying again cannot help (no registry has it).
    """

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), permanent=self.permanent), (str(self),)


class ModelUnavailable(InfraError):
    """An endpoint gave no usable answer after all retries.

    `permanent` is true where asking again cannot help (wrong key, unknown model, no such path).
    `n_calls` is the number of requests that were sent for it, 0 and up: the endpoint may have charged for them.
    `was_sent` is true where a request went out at all, even if it found no connection.
    """

    def __init__(
        self, message: str, *, permanent: bool = False, n_calls: int = 0, was_sent: bool = False
    ) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.n_calls = n_calls
        self.was_sent = was_sent


class ServerUnavailable(InfraError):
    """A Prefect server, a Dask cluster or a model's server did not start, or does not answer."""


class DataUnavailable(InfraError):
    """No source of a public dataset gave its files, or gave other files than expected."""


class RunsFailed(ParleyError):
    """Some runs of the night failed; the others are published, and all are reported."""


class NightVoid(ParleyError):
    """The sandbox passed a known cheat or failed a known good program: no verdict of the night could be trusted."""

    exit_code = 3


class BudgetSpent(ParleyError):
    """A cap of the invocation's budget is met: nothing more is asked for, and all answers are kept."""

    exit_code = 4


class DiskFull(ParleyError):
    """The disk has no room left; with room, the same command goes on where it stopped."""


class CorruptRows(ParleyError):
    """Files of the lake or the tree store hold something that no version of Parley would have written."""


class AnswerMissing(ParleyError):
    """A recording holds no answer for this turn; the episode ends with an error, and the run goes on."""

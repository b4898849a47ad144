"""Errors that Parley raises on purpose.

    ParleyError
    ├── UsageError                exit 2: the request is invalid, or names something that is missing
    │   ├── UnknownName           no benchmark, setting, model, sandbox, option, run or episode has
    │   │                         this name
    │   ├── ConfigError           a configuration file or option value is invalid
    │   ├── SourceUnreadable      none of the benchmark's data can be read
    │   └── SchemaMismatch        another schema version wrote the Parquet file
    ├── InfraError                a machine or service failed, never the model under test
    │   ├── SandboxUnavailable    the sandbox itself could not run a program
    │   │   ├── HostShortage      the machine, not the program, lacked memory or time; the program
    │   │   │                     may run when it runs alone
    │   │   └── ImageFault        the Docker image of one instance is not available or not usable
    │   ├── ModelUnavailable      an endpoint gave no answer
    │   ├── ServerUnavailable     a Prefect server or Dask cluster did not start or answer
    │   └── DataUnavailable       no source of a public dataset provided its files
    ├── Unscorable                a resource that a program needs is missing (a toolchain, a tree);
    │                             no fault, and no verdict
    ├── RunsFailed                some runs of a night failed; the others are published
    ├── NightVoid                 exit 3: the sandbox passed a known cheat or failed a good program
    ├── BudgetSpent               exit 4: a cap of the budget is reached; no new request is sent
    ├── DiskFull                  the disk is full; with room, the same command resumes
    ├── CorruptRows               the lake has rows that no version of Parley would have written
    └── AnswerMissing             a recording has no answer for this turn: an error of that episode
        └── ReferenceMissing      the data have no reference for `control:gold` to answer with

A message states the value, the place and the remedy. The command line prints `str(error)`.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any


def near_name(name: str, known_names: Iterable[str]) -> str | None:
    """Return the known name that is most similar, ignoring case, or None if none is similar."""
    by_form: dict[str, str] = {}
    for known_name in known_names:
        by_form.setdefault(_form(known_name), known_name)
    near = get_close_matches(_form(name), by_form, n=1)
    return by_form[near[0]] if near else None


def _form(name: str) -> str:
    return name.rpartition("/")[2].lower().replace("-", "_")


class ParleyError(Exception):
    """Base of all errors. `exit_code` is the exit status of a command that the error ends."""

    exit_code = 1


class UsageError(ParleyError):
    """The request is invalid, or names something that does not exist.

    The user has to change the request.
    """

    exit_code = 2


class UnknownName(UsageError):
    """No `kind` has the name `value`.

    The message lists the known names. `of` is the object that `kind` belongs to, such as the
    setting of an option.
    """

    def __init__(
        self, kind: str, value: str, known_names: Iterable[str] = (), remedy: str = "", of: str = ""
    ) -> None:
        self.kind, self.value, self.known_names, self.remedy, self.of = (
            kind,
            value,
            tuple(known_names),
            remedy,
            of,
        )
        named = f"{kind} {value!r}{' of ' + of if of else ''}"
        listed = f"; known: {', '.join(self.known_names)}" if self.known_names else ""
        near = near_name(value, self.known_names)
        message = f"unknown {named}{listed}{f'. Do you mean {near}?' if near else ''}"
        super().__init__(f"{message}{' ' if near else '. '}{remedy}" if remedy else message)

    def __reduce__(self) -> tuple[type, tuple[str, str, tuple[str, ...], str, str]]:
        return type(self), (self.kind, self.value, self.known_names, self.remedy, self.of)


class ConfigError(UsageError):
    """A value of a configuration file or an option is invalid."""


class SourceUnreadable(UsageError):
    """None of a benchmark's raw data can be read. Single bad rows go to quarantine instead."""


class SchemaMismatch(UsageError):
    """A Parquet file was written by another version of its table's schema.

    `parley publish --migrate` can update files of older versions.
    """


class InfraError(ParleyError):
    """A machine or service failed, never the model under test. The work becomes pending again."""


class SandboxUnavailable(InfraError):
    """The sandbox itself could not run a program, so there is no verdict."""


class HostShortage(SandboxUnavailable):
    """The machine lacked memory, processes or time for a program.

    The program may run when it has the machine to itself.
    """


class Unscorable(ParleyError):
    """A program cannot be judged here, now or later. `reason` is the value of a `FailureReason`."""

    def __init__(self, message: str, reason: str = "toolchain_missing") -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.reason)


class ImageFault(SandboxUnavailable):
    """The Docker image of one instance cannot be pulled or used.

    The message begins with the reason (`image_missing`). `permanent` is True if a retry cannot
    help, because no registry has the image.
    """

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), permanent=self.permanent), (str(self),)


class ModelUnavailable(InfraError):
    """An endpoint gave no usable answer after all retries.

    Attributes:
        permanent: True if a retry cannot help (wrong key, unknown model, no such path).
        n_calls: number of requests sent, 0 and up. The endpoint may have charged for them.
        was_sent: True if a request was sent at all, even if it found no connection.
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
    """No source of a public dataset provided the expected files."""


class RunsFailed(ParleyError):
    """Some runs of the night failed. The others are published, and all are reported."""


class NightVoid(ParleyError):
    """The sandbox passed a known cheat or failed a known good program.

    No verdict of the night could be trusted.
    """

    exit_code = 3


class BudgetSpent(ParleyError):
    """A cap of the invocation's budget is reached.

    No new request is sent, and all answers are stored.
    """

    exit_code = 4


class DiskFull(ParleyError):
    """The disk is full. Once there is room, the same command resumes where it stopped."""


class CorruptRows(ParleyError):
    """Files of the lake or the tree store contain data that no version of Parley would write."""


class AnswerMissing(ParleyError):
    """A recording has no answer for this turn.

    The episode ends with an error, and the run continues.
    """


class ReferenceMissing(AnswerMissing):
    """The data have no reference answer for this turn, so `control:gold` gives none.

    The episode ends, and its scores are missing because the data lack their source.
    """

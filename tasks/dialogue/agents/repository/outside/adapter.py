"""Description of an agent of another project, and the environment of its own that it runs in."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from schemas.errors import SandboxUnavailable
from tasks.dialogue.tools import DialogueWorkspace, Tool

DRIVERS = Path(__file__).with_name("drivers")


@dataclass(frozen=True)
class Adapter:
    """Agent of another project, as data: its package, its driver, and its tools."""

    name: str
    """Name of the agent, of the make target that installs it, and suffix of its lock file."""
    version: str
    """Version of the adapter, part of the dialogues' ids. Raise it when the behaviour changes."""
    help: str
    distribution: str
    """Name of the agent's package on the Python package index."""
    release: str
    """Version of the package in the agent's lock file."""
    release_option: str
    """Name of the agent option that holds the package's version."""
    python: str
    """Python version that the lock file is for."""
    driver: Path
    """Script that runs on that Python. Its arguments are Parley's address and the step limit."""
    prompt: str
    """Prompt file, without suffix, that describes the repository and how to finish the work."""
    tools: Callable[[DialogueWorkspace], tuple[Tool, ...]]
    """Returns the tools that run in the workspace. `message_user` always exists."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables of the agent's process."""

    @property
    def variable(self) -> str:
        """Return the environment variable that holds the path of a Python with the package."""
        return f"PARLEY_{self.name.upper().replace('-', '_')}"


_FOLDER = ".agents"
_QUERY = "from importlib.metadata import version; import sys; print(version(sys.argv[1]))"
_QUERY_S = 60.0


def require_python(adapter: Adapter) -> str:
    """Return the path of the Python with the agent's package.

    Raises:
        SandboxUnavailable: There is none. The message contains the command that installs it.
    """
    named = os.environ.get(adapter.variable)
    python = named or str(installed_python(adapter.name))
    if named and not os.access(named, os.X_OK):
        raise SandboxUnavailable(
            f"{adapter.variable}={named}: there is no such program. {_remedy(adapter)}"
        )
    if not os.access(python, os.X_OK):
        raise SandboxUnavailable(
            f"agent {adapter.name} needs {adapter.distribution} {adapter.release} in an environment"
            f" of its own, which is not installed. {_remedy(adapter)}"
        )
    return python


def installed_python(name: str) -> Path:
    """Return the path of the Python that `make NAME` installs for an agent."""
    return Path(sys.prefix).parent / _FOLDER / name / "bin" / "python"


def require_release(adapter: Adapter, options: Mapping[str, str]) -> str:
    """Return version and Python of the package if the version is the one in the options.

    Raises:
        SandboxUnavailable: The environment is missing or broken, or has another version.
    """
    python, wanted = require_python(adapter), options[adapter.release_option]
    argv = (python, "-c", _QUERY, adapter.distribution)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_QUERY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"{python}: cannot be started ({error})") from None
    if done.returncode or not done.stdout.strip():
        raise SandboxUnavailable(f"{python} has no {adapter.distribution}. {_remedy(adapter)}")
    require_same_release(adapter, done.stdout.strip(), wanted)
    return f"{adapter.distribution} {wanted} at {python}"


def require_same_release(adapter: Adapter, installed: str, wanted: str) -> None:
    """Raise an error if the package has another version than the options state.

    Raises:
        SandboxUnavailable: The versions differ. The message contains the option to set.
    """
    if installed != wanted:
        raise SandboxUnavailable(
            f"agent {adapter.name}: {adapter.distribution} {installed} is installed, not {wanted}."
            f" Type `make {adapter.name}`, or give --agent-option"
            f" {adapter.release_option}={installed}"
        )


def _remedy(adapter: Adapter) -> str:
    return (
        f"Type `make {adapter.name}` in Parley's checkout. Or install"
        f" {adapter.distribution}=={adapter.release} on Python {adapter.python} in an environment"
        f" anywhere, and set {adapter.variable} to the path of its python"
    )

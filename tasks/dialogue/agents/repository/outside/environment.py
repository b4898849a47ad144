"""Environments of other projects' agents: where they are, and what is missing."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import SandboxUnavailable
from tasks.dialogue.agents.repository.outside.adapter import Adapter

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

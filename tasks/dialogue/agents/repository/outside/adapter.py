"""Description of an agent of another project that runs in an environment of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tasks.dialogue.tools import Tool
from tasks.dialogue.workspaces import SeatWorkspace

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
    tools: Callable[[SeatWorkspace], tuple[Tool, ...]]
    """Returns the tools that run in the workspace. `message_user` always exists."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables of the agent's process."""

    @property
    def variable(self) -> str:
        """Return the environment variable that holds the path of a Python with the package."""
        return f"PARLEY_{self.name.upper().replace('-', '_')}"

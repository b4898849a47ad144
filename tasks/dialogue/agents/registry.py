"""Agents by name: ours, and others' through the entry point group `parley.agents`."""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from schemas.outside.plugins import found, known

if TYPE_CHECKING:
    from tasks.dialogue.agents.contract import Agent

BUILT_IN = MappingProxyType(
    {
        "a-mem": "tasks.dialogue.agents.memory.a_mem",
        "autonomous": "tasks.dialogue.agents.repository.autonomous",
        "chain_of_thought": "tasks.dialogue.agents.chain_of_thought",
        "hipporag": "tasks.dialogue.agents.memory.hipporag",
        "interactive": "tasks.dialogue.agents.repository.interactive",
        "memoryos": "tasks.dialogue.agents.memory.memory_os",
        "openhands": "tasks.dialogue.agents.repository.openhands.agent",
        "schema-guided": "tasks.dialogue.agents.repository.schema_guided",
    }
)
GROUP = "parley.agents"


def names() -> tuple[str, ...]:
    """All known agents, sorted; nothing is imported for it."""
    return known(GROUP, BUILT_IN)


def load(name: str) -> "Agent":
    """The agent of that name.

    Raises:
        UnknownName: lists the known names.
    """
    return found("agent", GROUP, BUILT_IN, name, _built_in, "See `parley list agents`")


def _built_in(name: str) -> "Agent":
    return import_module(BUILT_IN[name]).AGENT

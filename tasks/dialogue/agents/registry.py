"""Agents by name: ours, and others' through the entry point group `parley.agents`."""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from schemas.outside.plugins import load_registered, registered_names

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
        "mini-swe-agent": "tasks.dialogue.agents.repository.outside.adapters:MINI_SWE_AGENT",
        "openhands": "tasks.dialogue.agents.repository.outside.adapters:OPENHANDS",
        "schema-guided": "tasks.dialogue.agents.repository.schema_guided",
    }
)
"""Name -> module, and the name of the agent in it where that is not `AGENT`."""
GROUP = "parley.agents"


def names() -> tuple[str, ...]:
    """All known agents, sorted; nothing is imported for it."""
    return registered_names(GROUP, BUILT_IN)


def load(name: str) -> "Agent":
    """The agent of that name.

    Raises:
        UnknownName: lists the known names.
    """
    return load_registered("agent", GROUP, BUILT_IN, name, _built_in, "See `parley list agents`")


def _built_in(name: str) -> "Agent":
    module, _, attribute = BUILT_IN[name].partition(":")
    return getattr(import_module(module), attribute or "AGENT")

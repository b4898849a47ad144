"""Agents by name. Packages add more by the entry point group `parley.agents`."""

from typing import TYPE_CHECKING

from schemas.outside.registry import Registry

if TYPE_CHECKING:
    from tasks.dialogue.agents.contract import Agent

AGENTS: "Registry[Agent]" = Registry(
    "agent",
    "parley.agents",
    {
        "a-mem": "tasks.dialogue.agents.memory.a_mem:AGENT",
        "autonomous": "tasks.dialogue.agents.repository.agents:AUTONOMOUS",
        "chain_of_thought": "tasks.dialogue.agents.chain_of_thought:AGENT",
        "hipporag": "tasks.dialogue.agents.memory.hipporag:AGENT",
        "interactive": "tasks.dialogue.agents.repository.agents:INTERACTIVE",
        "memoryos": "tasks.dialogue.agents.memory.memory_os:AGENT",
        "mini-swe-agent": "tasks.dialogue.agents.repository.outside.adapters:MINI_SWE_AGENT",
        "openhands": "tasks.dialogue.agents.repository.outside.adapters:OPENHANDS",
        "schema-guided": "tasks.dialogue.agents.repository.agents:SCHEMA_GUIDED",
    },
    remedy="See `parley list agents`",
)

"""Agent whose dialogue state of keys and values guides it (Dialogue-SWEBench, section 4)."""

from tasks.dialogue.agents.repository.agents import repository_agent

AGENT = repository_agent(
    "schema-guided",
    "schema_guided",
    "like interactive, with a dialogue state: keys whose values are UNKNOWN at first",
)

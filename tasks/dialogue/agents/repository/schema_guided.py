"""Keeps a state of the dialogue with keys and values that it fills by asking and looking (section 4)."""

from tasks.dialogue.agents.repository.agents import repository_agent

AGENT = repository_agent(
    "schema-guided",
    "schema_guided",
    "as interactive, with a dialogue state of keys and UNKNOWN values",
)

"""Agent that asks the user about unclear requests (Dialogue-SWEBench, section 5, baseline 2)."""

from tasks.dialogue.agents.repository.agents import repository_agent

AGENT = repository_agent(
    "interactive",
    "interactive",
    "resolves an issue in a repository and asks the user about unclear parts",
)

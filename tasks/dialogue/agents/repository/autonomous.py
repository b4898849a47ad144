"""Agent whose prompt does not ask it to question the user (Dialogue-SWEBench, section 5)."""

from tasks.dialogue.agents.repository.agents import repository_agent

AGENT = repository_agent("autonomous", "autonomous", "resolves an issue in a repository alone")

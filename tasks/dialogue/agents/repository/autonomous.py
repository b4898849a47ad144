"""Agent that works alone: a user exists, but the prompt does not ask for questions (section 5)."""

from tasks.dialogue.agents.repository.agents import repository_agent

AGENT = repository_agent("autonomous", "autonomous", "resolves an issue in a repository alone")

"""Works on its own: the user is there, and it is not told to ask (section 5, baseline 1)."""

from tasks.dialogue.agents.repository.agents import repository_agent

AGENT = repository_agent(
    "autonomous", "autonomous", "resolves an issue in a repository, on its own"
)

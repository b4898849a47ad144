"""Agents that work in a repository and may talk with its user: one loop, several prompt files."""

from tasks.dialogue.agents.repository.labels import CONTEXT as CONTEXT
from tasks.dialogue.agents.repository.labels import ENDED as ENDED
from tasks.dialogue.agents.repository.labels import FINISHED as FINISHED
from tasks.dialogue.agents.repository.labels import PATCH as PATCH
from tasks.dialogue.agents.repository.labels import STEP_LIMIT as STEP_LIMIT

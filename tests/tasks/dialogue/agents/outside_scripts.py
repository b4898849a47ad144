"""Scripted models for agents of other projects: the same work, by each agent's own tools."""

import os
from dataclasses import dataclass

import pytest

from tasks.dialogue.agents.repository.outside.adapter import installed_python
from tasks.language.chat_model import Completion
from tests.tasks.benchmarks.dialogue_swebench.played import NO_VIOLATION, Scripted, calls, says

FIX = {
    "command": "str_replace",
    "path": "src/retrier/core.py",
    "old_str": "clock() - begun > deadline_s",
    "new_str": "clock() - begun + pause > deadline_s",
}
QUESTION, FURTHER = "After which pause should it give up?", "Is the deadline in seconds?"
REPLIES = ("Where the pause would end after the deadline.", "Yes, in seconds.")
LAST_WORDS = "It looks at the clock before it waits now."


@dataclass(frozen=True)
class Script:
    """Answers that ask in both ways, call a tool that is not there, fix the bug and end the
    work.
    """

    agent: str
    answers: tuple[Completion, ...]
    tools: frozenset[str]
    prompt: str
    """Text of the agent's own prompt."""
    first: str
    """Result of its first command."""
    folder: str
    """Working directory of the command behind one that has changed it."""


OPENHANDS = Script(
    agent="openhands",
    answers=(
        calls(("bash", {"command": "cd src && echo one >> /tmp/log && git log --oneline | wc -l"})),
        calls(
            ("message_user", {"message": QUESTION}),
            ("think", {"thought": "soon"}),
            ("bash", {"command": "true"}),
        ),
        says(FURTHER),
        calls(("bash", {"command": "pwd; echo two >> /tmp/log; cat /tmp/log"}), ("edit_file", FIX)),
        calls(("no_such_tool", {})),
        calls(("finish", {"message": LAST_WORDS})),
    ),
    tools=frozenset({"bash", "edit_file", "message_user", "finish", "think"}),
    prompt="OpenHands",
    first="1\n[exit code 0]",
    folder="/testbed/src",
)
_SED = f"sed -i 's/{FIX['old_str']}/{FIX['new_str']}/' {FIX['path']}"
MINI_SWE_AGENT = Script(
    agent="mini-swe-agent",
    answers=(
        calls(("bash", {"command": "cd src && echo one >> /tmp/log && git log --oneline | wc -l"})),
        calls(("message_user", {"message": QUESTION}), ("bash", {"command": "true"})),
        says(FURTHER),
        calls(("bash", {"command": f"pwd; echo two >> /tmp/log; cat /tmp/log; {_SED}"})),
        calls(("no_such_tool", {})),
        calls(
            ("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}), content=LAST_WORDS
        ),
    ),
    tools=frozenset({"bash", "message_user"}),
    prompt="Your response MUST include AT LEAST ONE bash tool call",
    first="1\n[exit code 0]",
    folder="/testbed",
)
SCRIPTS = (OPENHANDS, MINI_SWE_AGENT)


def is_installed(agent: str) -> bool:
    """Return whether this machine has the agent's environment."""
    variable = f"PARLEY_{agent.upper().replace('-', '_')}"
    return bool(os.environ.get(variable)) or os.access(installed_python(agent), os.X_OK)


def needs(agent: str) -> pytest.MarkDecorator:
    """Return the mark that skips a test where the agent is not installed."""
    return pytest.mark.skipif(
        not is_installed(agent), reason=f"{agent} is not installed: make {agent}"
    )


EACH = tuple(pytest.param(script, id=script.agent, marks=needs(script.agent)) for script in SCRIPTS)


def user(n_before: int = 0) -> Scripted:
    """Return a simulator that gives the replies and finds nothing wrong with them.

    Args:
        n_before: how many of its answers came before, in an attempt that was cut off.
    """
    answers = [says(text) for reply in REPLIES for text in (reply, NO_VIOLATION)]
    return Scripted(answers[n_before:] or answers[-1:])

"""Construction of agents from a prompt file.

The workspace opens in the state of its last step and closes with the dialogue.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from sandbox.workspace.interface import programs_of
from schemas.dialog import HistoryPolicy
from schemas.errors import ConfigError, SandboxUnavailable
from tasks.dialogue.agents.contract import Agent, AgentOption, AgentRequest, MakeSubject
from tasks.dialogue.agents.repository.conversation import open_in_background
from tasks.dialogue.agents.repository.loop import MOST_STEPS, USUAL_STEPS, RepositorySubject
from tasks.dialogue.tools import DialogueWorkspace, Workspaces
from tasks.language.prompt import PromptTexts, fill

STEPS = "steps"
_SHELL_STATE = (
    "export PATH={programs}:$PATH PYTHONPATH=/testbed PIP_NO_INPUT=1"
    " PAGER=cat GIT_PAGER=cat TERM=dumb"
)


def repository_agent(name: str, prompt: str, help: str) -> Agent:
    """Return an agent that works in a repository by the loop in `loop.py`.

    Args:
        name: Name of the agent.
        prompt: Name of its prompt file.
        help: One line for lists of agents.
    """
    texts = PromptTexts(__name__.rpartition(".")[0], (prompt, "work"))

    def begin(request: AgentRequest) -> AbstractAsyncContextManager[MakeSubject]:
        return _begin(
            request, f"{texts[prompt]}\n\n{fill(texts['work'], steps=request.options[STEPS])}"
        )

    steps = tuple(str(n) for n in range(1, MOST_STEPS + 1))
    return Agent(
        name=name,
        version="3",
        help=help,
        begin=begin,
        options=(
            AgentOption(STEPS, str(MOST_STEPS), "maximum answers of the model per dialogue", steps),
        ),
        prompts=texts,
        calls_per_turn=MOST_STEPS,
        usual_calls=USUAL_STEPS,
    )


@asynccontextmanager
async def _begin(request: AgentRequest, system: str) -> AsyncIterator[MakeSubject]:
    async with open_repository(request) as workspace:

        def make_subject(history: HistoryPolicy) -> RepositorySubject:
            return RepositorySubject(
                request.model, request.sampling, system, workspace, int(request.options[STEPS])
            )

        yield make_subject


def open_repository(request: AgentRequest) -> AbstractAsyncContextManager[DialogueWorkspace]:
    """Open the dialogue's workspace in the state of its last step.

    The workspace opens in the background. Each use of it waits until it is open.

    Raises:
        ConfigError: The dialogue has no repository.
    """
    if request.tree is None or request.workspaces is None:
        raise ConfigError(
            "this agent needs a repository, but the dialogue's problem has none. Choose another"
            " agent or benchmark"
        )
    return open_in_background(_with_shell(request, request.workspaces, request.tree))


@asynccontextmanager
async def _with_shell(
    request: AgentRequest, workspaces: Workspaces, tree: str
) -> AsyncIterator[DialogueWorkspace]:
    """Open the workspace and, in a new dialogue, prepare its shell.

    Raises:
        SandboxUnavailable: The shell does not start.
    """
    trees = [step.tree for step in request.steps if step.tree is not None]
    async with workspaces.open(
        trees[-1] if trees else tree, environment=request.environment
    ) as workspace:
        if not trees:
            result = await workspace.shell(
                _SHELL_STATE.format(programs=programs_of(request.environment))
            )
            if result.completed.exit_code != 0:
                errors = result.completed.stderr.decode(errors="replace")[-300:]
                raise SandboxUnavailable(f"the workspace's shell does not start: {errors}")
        yield workspace


# Dialogue-SWEBench, sections 4 and 5. Only the prompts differ.
AUTONOMOUS = repository_agent("autonomous", "autonomous", "resolves an issue in a repository alone")
INTERACTIVE = repository_agent(
    "interactive",
    "interactive",
    "resolves an issue in a repository and asks the user about unclear parts",
)
SCHEMA_GUIDED = repository_agent(
    "schema-guided",
    "schema_guided",
    "like interactive, with a dialogue state: keys whose values are UNKNOWN at first",
)

"""Construction of an agent from an adapter. Its process uses the workspace and the run's model.

The agent's package pins other versions than Parley, so it has its own Python. Its process reaches
Parley at one loopback address, for the model's answers, for tools and for the user. Therefore
journal, budget, costs and sandbox apply as usual.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from schemas.dialog import HistoryPolicy
from tasks.dialogue.agents.contract import Agent, AgentOption, AgentRequest, MakeSeat
from tasks.dialogue.agents.repository.agents import STEPS, open_repository
from tasks.dialogue.agents.repository.loop import MOST_STEPS, USUAL_STEPS
from tasks.dialogue.agents.repository.outside.adapter import Adapter
from tasks.dialogue.agents.repository.outside.environment import require_release
from tasks.dialogue.agents.repository.outside.seat import OutsideSeat
from tasks.dialogue.agents.repository.outside.session import open_session
from tasks.language.prompt import PromptTexts, fill

_STEP_LIMITS = tuple(str(n) for n in range(1, MOST_STEPS + 1))


def outside_agent(adapter: Adapter) -> Agent:
    """Return the agent that an adapter describes."""
    prompts = PromptTexts("tasks.dialogue.agents.repository", (adapter.prompt,))

    @asynccontextmanager
    async def begin(request: AgentRequest) -> AsyncIterator[MakeSeat]:
        limit = int(request.options[STEPS])
        work = fill(prompts[adapter.prompt], steps=str(limit))
        async with open_repository(request) as workspace, open_session(adapter, limit) as session:

            def seat(history: HistoryPolicy) -> OutsideSeat:
                return OutsideSeat(
                    model=request.model,
                    sampling=request.sampling,
                    workspace=workspace,
                    session=session,
                    adapter=adapter,
                    work=work,
                    release=request.options[adapter.release_option],
                    most_steps=limit,
                )

            yield seat

    return Agent(
        name=adapter.name,
        version=adapter.version,
        help=adapter.help,
        begin=begin,
        options=(
            AgentOption(
                STEPS, str(MOST_STEPS), "maximum answers of the model per dialogue", _STEP_LIMITS
            ),
            AgentOption(
                adapter.release_option, adapter.release, f"version of {adapter.distribution}"
            ),
        ),
        prompts=prompts,
        calls_per_turn=MOST_STEPS,
        usual_calls=USUAL_STEPS,
        check=partial(require_release, adapter),
    )
